// SPDX-License-Identifier: Apache-2.0
// A DeschedulerPolicy with its defaults, as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "descheduler/descheduler_args.h"
#include "rebalance/policy.h"
#include "text/yaml_tree.h"

namespace forestall::descheduler {

struct EffectiveConfig {
  std::string plugin;
  const text::YamlNode* args = nullptr;  // as written; null: none
  ConfiguredArgs read;
};

struct EffectiveProfile {
  std::string name;
  std::optional<std::string> node_selector;
  std::vector<EffectiveConfig> configs;
  std::vector<std::string> deschedule;
  std::vector<std::string> balance;
};

// The nodes belong to the tree of the policy.
struct EffectivePolicy {
  bool classes_known = false;  // priority thresholds by name were resolved
  std::optional<std::string> node_selector;
  bool failure_events = false;
  std::optional<std::int64_t> grace_seconds;
  const text::YamlNode* metrics_providers = nullptr;
  const text::YamlNode* metrics_collector = nullptr;
  std::vector<EffectiveProfile> profiles;
};

// Arguments as written, then those with a default that were not written.
[[nodiscard]] std::string to_json(const EffectivePolicy& effective,
                                  const rebalance::Policy& policy);

}  // namespace forestall::descheduler
