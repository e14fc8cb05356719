// SPDX-License-Identifier: Apache-2.0
// How much of a cgroup's usage its memory.min and memory.low protect, as oomd computes it.
#pragma once

#include <cstdint>
#include <optional>

#include "model/rule_observation.h"

namespace forestall::rulesets {

// Usage without the protected part; nothing if the usage is unknown. A cgroup has the share of its
// parent's protection that its own claim has among its siblings; a top-level one has its claim,
// which is memory.min or memory.low, whichever is larger, up to the usage.
[[nodiscard]] std::optional<std::int64_t> effective_usage(const Cgroup& cgroup,
                                                          const RuleObservation& observed);

}  // namespace forestall::rulesets
