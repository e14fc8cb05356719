// SPDX-License-Identifier: Apache-2.0
// The order of eviction as a table for people; its columns follow the resource.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/signal.h"

namespace forestall::cli {

// "1.2 GiB" for a resource that is measured in bytes, "1200" else.
[[nodiscard]] std::string amount_text(Resource resource, std::int64_t amount);

// What was declared; nothing when nothing was, which ranks as 0. For inodes and ephemeral storage
// it is the request for ephemeral storage.
[[nodiscard]] std::optional<std::int32_t> priority_of(const Workload& workload);
[[nodiscard]] std::optional<Bytes> request_of(const Candidate& candidate, Resource resource);

// One row per candidate: what `describe` says of it, what the comparators look at, and which of
// them put it before the next one, or why it is passed over. `ranking` is whose comparators. For
// memory how much each grew is shown as well, if that is known of any or compared.
[[nodiscard]] std::string order_text(const std::vector<Candidate>& order, Resource resource,
                                     const std::vector<std::string>& headings,
                                     std::vector<std::string> (*describe)(const Workload&),
                                     Ranking ranking = Ranking::kubelet);

// Why a workload is never killed, in words; empty for one that may be.
[[nodiscard]] std::string protection_reason(const Workload& workload);

}  // namespace forestall::cli
