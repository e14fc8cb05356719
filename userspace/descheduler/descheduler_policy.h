// SPDX-License-Identifier: Apache-2.0
// DeschedulerPolicy (descheduler/v1alpha2), the configuration of kubernetes-sigs/descheduler, as
// YAML or JSON. descheduler/v1alpha1 is translated first.
//
// As strict as the descheduler: unknown keys of the policy and of its profiles are ignored, those
// of a plugin's arguments are errors. Of a key that is given twice the last value counts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rebalance/policy.h"
#include "rebalance/snapshot.h"
#include "text/diagnostic.h"

namespace forestall::descheduler {

struct DeschedulerPolicy {
  rebalance::Policy policy;
  // The policy as v1alpha2 with all defaults filled in, as JSON.
  std::string effective;
};

// Nothing after an error. `classes` resolve priority thresholds by name; null: names are kept.
[[nodiscard]] std::optional<DeschedulerPolicy> parse_descheduler_policy(
    const std::string& file, std::string_view text,
    const std::vector<rebalance::PriorityClass>* classes, text::Findings& findings);

}  // namespace forestall::descheduler
