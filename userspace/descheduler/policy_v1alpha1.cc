// SPDX-License-Identifier: Apache-2.0
// The keys are those of the descheduler's v1alpha1 types, which its release 0.27 still reads.
#include "descheduler/policy_v1alpha1.h"

#include <fmt/format.h>

#include <array>

#include "descheduler/descheduler_args.h"
#include "text/yaml_json.h"

namespace forestall::descheduler {
namespace {

using text::YamlEntry;
using text::YamlNode;

// A key of v1alpha1 and what it is in v1alpha2.
struct RenamedKey {
  const char* from;
  const char* to;
};

constexpr std::array kTopLevelKeys{
    // The first four are ours.
    RenamedKey{"compat", "compat"},
    RenamedKey{"pacing", "pacing"},
    RenamedKey{"reserve", "reserve"},
    RenamedKey{"placeholder", "placeholder"},
    RenamedKey{"nodeSelector", "nodeSelector"},
    RenamedKey{"maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictPerNode"},
    RenamedKey{"maxNoOfPodsToEvictPerNamespace", "maxNoOfPodsToEvictPerNamespace"}};
constexpr std::array kEvictorKeys{RenamedKey{"evictLocalStoragePods", "evictLocalStoragePods"},
                                  RenamedKey{"evictSystemCriticalPods", "evictSystemCriticalPods"},
                                  RenamedKey{"evictFailedBarePods", "evictFailedBarePods"},
                                  RenamedKey{"ignorePvcPods", "ignorePvcPods"}};

// The keys that each block of parameters has. Others are ignored, like all unknown keys of
// v1alpha1.
constexpr std::array kNamespaceKeys{"include", "exclude"};
constexpr std::array kLowKeys{"useDeviationThresholds", "thresholds", "targetThresholds",
                              "numberOfNodes"};
constexpr std::array kHighKeys{"thresholds", "numberOfNodes"};
constexpr std::array kDuplicatesKeys{"excludeOwnerKinds"};
constexpr std::array kFailedKeys{"excludeOwnerKinds", "minPodLifetimeSeconds", "reasons",
                                 "includingInitContainers"};
constexpr std::array kRestartsKeys{"podRestartThreshold", "includingInitContainers"};
constexpr std::array kLifeTimeKeys{"maxPodLifeTimeSeconds", "states", "podStatusPhases"};

template <typename Keys>
void copy_entries(const YamlNode& from, const Keys& keys, YamlNode& to) {
  for (const RenamedKey& each : keys) {
    if (const YamlNode* const value = entry_of(from, each.from)) set_entry(to, each.to, *value);
  }
}

template <typename Keys>
void copy_block(const YamlNode* from, const Keys& keys, YamlNode& to) {
  if (from == nullptr) return;
  for (const char* const each : keys) {
    if (const YamlNode* const value = entry_of(*from, each)) set_entry(to, each, *value);
  }
}

bool is_true(const YamlNode* node) {
  return node != nullptr && text::boolean_of(*node).value_or(false);
}

YamlNode list_of(const YamlNode& like, std::vector<YamlNode> items) {
  YamlNode list;
  list.kind = YamlNode::Kind::list;
  list.at = like.at;
  list.items = std::move(items);
  return list;
}

YamlNode evictor_config(std::string_view strategy, const YamlNode& policy, const YamlNode& params) {
  YamlNode args = map_like(params);
  copy_entries(policy, kEvictorKeys, args);
  // PodLifeTime never had it.
  const YamlNode* const fit = strategy == "PodLifeTime" ? nullptr : entry_of(params, "nodeFit");
  if (fit != nullptr) set_entry(args, "nodeFit", *fit);
  YamlNode threshold = map_like(params);
  if (const YamlNode* const value = entry_of(params, "thresholdPriority")) {
    set_entry(threshold, "value", *value);
  }
  if (const YamlNode* const name = entry_of(params, "thresholdPriorityClassName")) {
    set_entry(threshold, "name", *name);
  }
  if (!threshold.entries.empty()) set_entry(args, "priorityThreshold", std::move(threshold));
  YamlNode config = map_like(params);
  set_entry(config, "name", text_like(params, std::string(kDefaultEvictor)));
  set_entry(config, "args", std::move(args));
  return config;
}

// PodLifeTime has its phases in a key of their own.
void add_phases(const YamlNode& params, YamlNode& args) {
  const YamlNode* const phases = entry_of(params, "podStatusPhases");
  if (phases == nullptr) return;
  YamlNode states = *phases;
  if (const YamlNode* const more = entry_of(params, "states")) {
    states.items.insert(states.items.end(), more->items.begin(), more->items.end());
  }
  std::erase_if(args.entries, [](const YamlEntry& each) {
    return each.key == "states" || each.key == "podStatusPhases";
  });
  set_entry(args, "states", std::move(states));
}

YamlNode strategy_args(std::string_view name, const YamlNode& params) {
  YamlNode args = map_like(params);
  const bool utilization = name == "LowNodeUtilization" || name == "HighNodeUtilization";
  const YamlNode* const namespaces = entry_of(params, "namespaces");
  if (namespaces != nullptr) {
    YamlNode known = map_like(*namespaces);
    copy_block(namespaces, kNamespaceKeys, known);
    set_entry(args, utilization ? "evictableNamespaces" : "namespaces", std::move(known));
  }
  if (!utilization && name != "RemoveDuplicates") {
    copy_entries(params, std::array{RenamedKey{"labelSelector", "labelSelector"}}, args);
  }
  const YamlNode* const thresholds = entry_of(params, "nodeResourceUtilizationThresholds");
  if (name == "LowNodeUtilization") copy_block(thresholds, kLowKeys, args);
  if (name == "HighNodeUtilization") copy_block(thresholds, kHighKeys, args);
  if (name == "RemoveDuplicates") {
    copy_block(entry_of(params, "removeDuplicates"), kDuplicatesKeys, args);
  }
  if (name == "RemoveFailedPods") copy_block(entry_of(params, "failedPods"), kFailedKeys, args);
  if (name == "RemovePodsHavingTooManyRestarts") {
    copy_block(entry_of(params, "podsHavingTooManyRestarts"), kRestartsKeys, args);
  }
  if (name == "RemovePodsViolatingNodeAffinity") {
    copy_entries(params, std::array{RenamedKey{"nodeAffinityType", "nodeAffinityType"}}, args);
  }
  if (name == "RemovePodsViolatingNodeTaints") {
    copy_entries(params,
                 std::array{RenamedKey{"includePreferNoSchedule", "includePreferNoSchedule"},
                            RenamedKey{"excludedTaints", "excludedTaints"}},
                 args);
  }
  if (name == "PodLifeTime") {
    if (const YamlNode* const own = entry_of(params, "podLifeTime")) {
      copy_block(own, kLifeTimeKeys, args);
      add_phases(*own, args);
    }
  }
  if (name == "RemovePodsViolatingTopologySpreadConstraint" &&
      is_true(entry_of(params, "includeSoftConstraints"))) {
    set_entry(
        args, "constraints",
        list_of(params, {text_like(params, "DoNotSchedule"), text_like(params, "ScheduleAnyway")}));
  }
  return args;
}

bool has_both_thresholds(const YamlNode& strategy) {
  const YamlNode* const params = entry_of(strategy, "params");
  if (params == nullptr) return false;
  const auto given = [&](std::string_view key) {
    const YamlNode* const value = entry_of(*params, key);
    return value != nullptr && value->kind == YamlNode::Kind::scalar && !value->text.empty() &&
           text::scalar_type(*value) != text::ScalarType::null;
  };
  return given("thresholdPriority") && given("thresholdPriorityClassName");
}

YamlNode profile_of(const YamlNode& policy, const YamlEntry& strategy) {
  const YamlNode* const given = entry_of(strategy.value, "params");
  const YamlNode params = given != nullptr ? *given : map_like(strategy.value);
  YamlNode config = map_like(params);
  set_entry(config, "name", text_like(strategy.value, strategy.key));
  set_entry(config, "args", strategy_args(strategy.key, params));
  YamlNode enabled = map_like(params);
  set_entry(enabled, "enabled", list_of(params, {text_like(strategy.value, strategy.key)}));
  YamlNode plugins = map_like(params);
  set_entry(plugins, is_balance_plugin(strategy.key) ? "balance" : "deschedule",
            std::move(enabled));
  YamlNode profile = map_like(strategy.value);
  set_entry(profile, "name",
            text_like(strategy.value, fmt::format("strategy-{}-profile", strategy.key)));
  set_entry(profile, "pluginConfig",
            list_of(params, {evictor_config(strategy.key, policy, params), std::move(config)}));
  set_entry(profile, "plugins", std::move(plugins));
  return profile;
}

}  // namespace

YamlNode map_like(const YamlNode& like) {
  YamlNode map;
  map.kind = YamlNode::Kind::map;
  map.at = like.at;
  return map;
}

YamlNode text_like(const YamlNode& like, std::string text, bool quoted) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.at = like.at;
  node.text = std::move(text);
  node.quoted = quoted;
  return node;
}

void set_entry(YamlNode& map, std::string key, YamlNode value) {
  const text::Position at = value.at;
  map.entries.push_back({std::move(key), at, std::move(value)});
}

const YamlNode* entry_of(const YamlNode& map, std::string_view key) {
  for (const YamlEntry& each : map.entries) {
    if (each.key == key) return &each.value;
  }
  return nullptr;
}

YamlNode translate_v1alpha1(const YamlNode& policy, PolicyErrors& errors) {
  YamlNode out = map_like(policy);
  copy_entries(policy, kTopLevelKeys, out);
  std::vector<YamlNode> profiles;
  const YamlNode* const strategies = entry_of(policy, "strategies");
  if (strategies != nullptr) {
    for (const YamlEntry& each : strategies->entries) {
      if (!is_registered(each.key) || each.key == kDefaultEvictor) {
        errors.add(each.at, fmt::format("unknown strategy name: {}", each.key));
        continue;
      }
      if (!is_true(entry_of(each.value, "enabled"))) continue;
      if (has_both_thresholds(each.value)) {
        errors.add(each.at,
                   fmt::format("priority threshold misconfigured for plugin {}", each.key));
        continue;
      }
      profiles.push_back(profile_of(policy, each));
    }
  }
  set_entry(out, "profiles", list_of(policy, std::move(profiles)));
  return out;
}

}  // namespace forestall::descheduler
