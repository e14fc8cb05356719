// SPDX-License-Identifier: Apache-2.0
#include "descheduler/effective_policy.h"

#include <array>

#include "descheduler/policy_v1alpha1.h"
#include "text/json_writer.h"
#include "text/yaml_json.h"

namespace forestall::descheduler {
namespace {

using text::JsonWriter;
using text::YamlNode;

// A default as JSON.
struct DefaultArg {
  const char* plugin;
  const char* key;
  const char* value;
};

constexpr std::array kDefaultArgs{
    DefaultArg{"DefaultEvictor", "nodeSelector", "\"\""},
    DefaultArg{"DefaultEvictor", "evictLocalStoragePods", "false"},
    DefaultArg{"DefaultEvictor", "evictDaemonSetPods", "false"},
    DefaultArg{"DefaultEvictor", "evictSystemCriticalPods", "false"},
    DefaultArg{"DefaultEvictor", "ignorePvcPods", "false"},
    DefaultArg{"DefaultEvictor", "evictFailedBarePods", "false"},
    DefaultArg{"DefaultEvictor", "ignorePodsWithoutPDB", "false"},
    DefaultArg{"DefaultEvictor", "nodeFit", "false"},
    DefaultArg{"DefaultEvictor", "minReplicas", "0"},
    DefaultArg{"DefaultEvictor", "noEvictionPolicy", "\"Preferred\""},
    DefaultArg{"LowNodeUtilization", "useDeviationThresholds", "false"},
    DefaultArg{"LowNodeUtilization", "numberOfNodes", "0"},
    DefaultArg{"HighNodeUtilization", "numberOfNodes", "0"},
    DefaultArg{"NodePressure", "secondsToCrossing", "600"},
    DefaultArg{"NodePressure", "stallPercent", "{\"full\": 10}"},
    DefaultArg{"NodePressure", "consecutiveReports", "3"},
    DefaultArg{"NodePressure", "maxReportAgeSeconds", "120"},
    DefaultArg{"NodePressure", "destinationHeadroomPercent", "10"},
    DefaultArg{"RemovePodsViolatingNodeTaints", "includePreferNoSchedule", "false"},
    DefaultArg{"RemovePodsViolatingTopologySpreadConstraint", "constraints", "[\"DoNotSchedule\"]"},
    DefaultArg{"RemovePodsViolatingTopologySpreadConstraint", "topologyBalanceNodeFit", "true"},
    DefaultArg{"RemovePodsHavingTooManyRestarts", "includingInitContainers", "false"},
    DefaultArg{"PodLifeTime", "includingInitContainers", "false"},
    DefaultArg{"PodLifeTime", "includingEphemeralContainers", "false"},
    DefaultArg{"RemoveFailedPods", "includingInitContainers", "false"},
    DefaultArg{"RemoveFailedPods", "minPodLifetimeSeconds", "3600"}};

constexpr std::string_view kThreshold = "priorityThreshold";

// A null is as good as nothing.
bool was_given(const YamlNode* args, std::string_view key) {
  const YamlNode* const found = args == nullptr ? nullptr : entry_of(*args, key);
  if (found == nullptr || found->kind == YamlNode::Kind::null) return false;
  return found->kind != YamlNode::Kind::scalar ||
         text::scalar_type(*found) != text::ScalarType::null;
}

void write_node(JsonWriter& out, std::string_view key, const YamlNode& node) {
  out.key(key);
  text::write_json(node, out);
}

// A name that no file resolves is printed as it is.
bool is_unresolved(const EffectiveConfig& config, bool classes_known) {
  if (classes_known || !was_given(config.args, kThreshold)) return false;
  const YamlNode* const name = entry_of(*entry_of(*config.args, kThreshold), "name");
  return name != nullptr && text::scalar_type(*name) == text::ScalarType::string &&
         !name->text.empty();
}

void write_args(JsonWriter& out, const EffectiveConfig& config, bool classes_known) {
  out.begin_object();
  const auto* const evictor = std::get_if<rebalance::DefaultEvictorArgs>(&config.read);
  const bool unresolved = evictor != nullptr && is_unresolved(config, classes_known);
  if (config.args != nullptr) {
    for (const text::YamlEntry& each : config.args->entries) {
      if (!was_given(config.args, each.key)) continue;
      if (evictor != nullptr && each.key == kThreshold && !unresolved) continue;
      write_node(out, each.key, each.value);
    }
  }
  for (const DefaultArg& each : kDefaultArgs) {
    if (config.plugin == each.plugin && !was_given(config.args, each.key)) {
      std::vector<text::Diagnostic> none;
      write_node(out, each.key, *text::parse_yaml(each.value, none));
    }
  }
  if (evictor != nullptr && !unresolved) {
    out.key(kThreshold);
    out.begin_object();
    out.member("value", evictor->priority_threshold);
    out.end_object();
  }
  out.end_object();
}

void write_enabled(JsonWriter& out, std::string_view point, const std::vector<std::string>& names) {
  out.key(point);
  out.begin_object();
  out.key("enabled");
  out.begin_list();
  for (const std::string& each : names) out.value(each);
  out.end_list();
  out.end_object();
}

void write_profile(JsonWriter& out, const EffectiveProfile& profile, bool classes_known) {
  out.begin_object();
  out.member("name", profile.name);
  if (profile.node_selector) out.member("nodeSelector", *profile.node_selector);
  out.key("pluginConfig");
  out.begin_list();
  for (const EffectiveConfig& each : profile.configs) {
    out.begin_object();
    out.member("name", each.plugin);
    out.key("args");
    write_args(out, each, classes_known);
    out.end_object();
  }
  out.end_list();
  out.key("plugins");
  out.begin_object();
  const std::vector<std::string> evictor{std::string(kDefaultEvictor)};
  write_enabled(out, "deschedule", profile.deschedule);
  write_enabled(out, "balance", profile.balance);
  write_enabled(out, "filter", evictor);
  write_enabled(out, "preevictionfilter", evictor);
  out.end_object();
  out.end_object();
}

void write_limit(JsonWriter& out, std::string_view key, const std::optional<std::uint64_t>& limit) {
  if (limit) out.member(key, *limit);
}

void write_reserve(JsonWriter& out, const std::optional<rebalance::PlaceholderSettings>& settings) {
  if (!settings) return;
  out.member("reserve", "placeholder");
  out.key("placeholder");
  out.begin_object();
  out.member("namespace", settings->pod_namespace);
  out.member("priorityClassName", settings->priority_class);
  out.member("image", settings->image);
  out.member("seconds", settings->seconds);
  out.end_object();
}

}  // namespace

std::string to_json(const EffectivePolicy& effective, const rebalance::Policy& policy) {
  JsonWriter out;
  out.begin_object();
  out.member("apiVersion", "descheduler/v1alpha2");
  out.member("kind", "DeschedulerPolicy");
  if (!policy.corrections.empty()) out.member("compat", "fixed");
  if (const rebalance::Pacing pacing = rebalance::pacing_of(policy); pacing.memory_seconds > 0) {
    out.key("pacing");
    out.begin_object();
    out.member("memorySeconds", pacing.memory_seconds);
    write_limit(out, "movesPerWorkload", pacing.moves_per_workload);
    out.member("secondsBetweenMoves", pacing.seconds_between_moves);
    out.end_object();
  }
  write_reserve(out, policy.placeholder);
  if (effective.node_selector) out.member("nodeSelector", *effective.node_selector);
  write_limit(out, "maxNoOfPodsToEvictPerNode", policy.evictions_per_node);
  write_limit(out, "maxNoOfPodsToEvictPerNamespace", policy.evictions_per_namespace);
  write_limit(out, "maxNoOfPodsToEvictTotal", policy.evictions_total);
  out.member("evictionFailureEventNotification", effective.failure_events);
  if (effective.grace_seconds) out.member("gracePeriodSeconds", *effective.grace_seconds);
  if (effective.metrics_collector != nullptr) {
    write_node(out, "metricsCollector", *effective.metrics_collector);
  }
  if (effective.metrics_providers != nullptr) {
    write_node(out, "metricsProviders", *effective.metrics_providers);
  }
  out.key("profiles");
  out.begin_list();
  for (const EffectiveProfile& each : effective.profiles) {
    write_profile(out, each, effective.classes_known);
  }
  out.end_list();
  out.end_object();
  return std::move(out).take();
}

}  // namespace forestall::descheduler
