// SPDX-License-Identifier: Apache-2.0
#include "descheduler/descheduler_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "descheduler/evictor_args.h"

namespace forestall::descheduler {
namespace {

using rebalance::MetricsSource;
using text::YamlNode;

constexpr std::array kDeschedulePlugins{
    std::string_view("PodLifeTime"),
    std::string_view("RemoveFailedPods"),
    std::string_view("RemovePodsHavingTooManyRestarts"),
    std::string_view("RemovePodsViolatingInterPodAntiAffinity"),
    std::string_view("RemovePodsViolatingNodeAffinity"),
    std::string_view("RemovePodsViolatingNodeTaints"),
};
constexpr std::array kBalancePlugins{
    std::string_view("HighNodeUtilization"),
    std::string_view("LowNodeUtilization"),
    std::string_view("NodePressure"),
    std::string_view("RemoveDuplicates"),
    std::string_view("RemovePodsViolatingTopologySpreadConstraint"),
};

constexpr std::string_view kNodePressure = "NodePressure";

constexpr std::array kLifeTimeStates{
    // phases of a pod
    std::string_view("Running"), std::string_view("Pending"), std::string_view("Succeeded"),
    std::string_view("Failed"), std::string_view("Unknown"),
    // reasons of a pod
    std::string_view("NodeAffinity"), std::string_view("NodeLost"), std::string_view("Shutdown"),
    std::string_view("UnexpectedAdmissionError"),
    // reasons of containers that wait
    std::string_view("PodInitializing"), std::string_view("ContainerCreating"),
    std::string_view("ImagePullBackOff"), std::string_view("CrashLoopBackOff"),
    std::string_view("CreateContainerConfigError"), std::string_view("ErrImagePull"),
    std::string_view("CreateContainerError"), std::string_view("InvalidImageName"),
    // reasons of containers that have terminated
    std::string_view("OOMKilled"), std::string_view("Error"), std::string_view("Completed"),
    std::string_view("DeadlineExceeded"), std::string_view("Evicted"),
    std::string_view("ContainerCannotRun"), std::string_view("StartError")};

template <typename List>
bool listed(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::set<std::string, std::less<>> as_set(const std::vector<std::string>& list) {
  return {list.begin(), list.end()};
}

rebalance::NamespaceRule read_rule(PolicyMap& args, std::string_view key,
                                   std::string_view refusal) {
  PolicyMap map = args.map(key);
  rebalance::NamespaceRule rule;
  rule.include = as_set(map.texts("include"));
  rule.exclude = as_set(map.texts("exclude"));
  map.finish();
  const bool both = !rule.include.empty() && !rule.exclude.empty();
  if (both && !refusal.empty()) args.error(key, std::string(refusal));
  return rule;
}

rebalance::NamespaceRule read_namespaces(PolicyMap& args) {
  return read_rule(args, "namespaces", "only one of Include/Exclude namespaces can be set");
}

rebalance::PodScope read_scope(PolicyMap& args) {
  rebalance::PodScope scope;
  scope.namespaces = read_namespaces(args);
  scope.selector =
      args.selector("labelSelector", "failed to get label selectors from strategy's params: ");
  return scope;
}

// `include_allowed`: the descheduler refuses it.
rebalance::NamespaceRule read_evictable(PolicyMap& args, bool include_allowed) {
  constexpr const char* kKey = "evictableNamespaces";
  if (include_allowed) {
    return read_rule(args, kKey, "only one of Include/Exclude namespaces can be set");
  }
  rebalance::NamespaceRule rule = read_rule(args, kKey, "");
  if (!rule.include.empty()) {
    args.error(kKey, "only Exclude namespaces can be set, inclusion is not supported");
  }
  return rule;
}

// The thresholds under `key`; a refusal begins with `prefix`.
rebalance::Thresholds read_thresholds(PolicyMap& args, std::string_view key,
                                      const std::string& prefix) {
  rebalance::Thresholds thresholds;
  for (const auto& [resource, percent] :
       args.percents(key).value_or(std::vector<std::pair<std::string, double>>())) {
    thresholds[resource] = percent;
  }
  if (thresholds.empty()) {
    args.error(key, prefix + "no resource threshold is configured");
    return thresholds;
  }
  for (const auto& [resource, percent] : thresholds) {
    if (percent >= 0 && percent <= 100) continue;
    args.error(key, fmt::format("{}{} threshold not in [0, 100] range", prefix, resource));
    break;
  }
  return thresholds;
}

void compare_thresholds(PolicyMap& args, const rebalance::LowNodeUtilizationArgs& low) {
  bool same = low.thresholds.size() == low.target_thresholds.size();
  for (const auto& [resource, percent] : low.thresholds) {
    same = same && low.target_thresholds.contains(resource);
  }
  if (!same) {
    args.error("targetThresholds",
               "thresholds and targetThresholds configured different resources");
    return;
  }
  if (low.deviation) return;
  for (const auto& [resource, percent] : low.thresholds) {
    if (percent <= low.target_thresholds.find(resource)->second) continue;
    args.error(
        "thresholds",
        fmt::format("thresholds' {} percentage is greater than targetThresholds'", resource));
    return;
  }
}

// `query`: of Prometheus.
MetricsSource read_metrics(PolicyMap& args, std::string& query) {
  if (args.find("metricsUtilization") == nullptr) return MetricsSource::requests;
  PolicyMap metrics = args.map("metricsUtilization");
  const bool server = metrics.boolean("metricsServer");
  const std::string source = metrics.text("source").value_or("");
  PolicyMap prometheus = metrics.map("prometheus");
  query = prometheus.text("query").value_or("");
  prometheus.finish();
  metrics.finish();
  const bool kubernetes = source == "KubernetesMetrics";
  if (kubernetes && server) {
    args.error("metricsUtilization",
               "it is not allowed to set both \"KubernetesMetrics\" source and metricsServer");
  } else if (kubernetes && prometheus.given()) {
    args.error("metricsUtilization",
               "prometheus configuration is not allowed to set when source is set to "
               "\"KubernetesMetrics\"");
  } else if (source == "Prometheus" && query.empty()) {
    args.error("metricsUtilization",
               "prometheus query is required when metrics source is set to \"Prometheus\"");
  }
  if (kubernetes || server) return MetricsSource::kubernetes;
  if (source.empty()) return MetricsSource::empty;
  return source == "Prometheus" ? MetricsSource::prometheus : MetricsSource::unknown;
}

// The profile of such a plugin cannot be built.
void check_metric_resource(PolicyMap& args, const rebalance::LowNodeUtilizationArgs& low) {
  if (low.metrics != MetricsSource::prometheus) return;
  for (const auto* const each : {&low.thresholds, &low.target_thresholds}) {
    if (each->size() == 1 && each->contains(rebalance::kMetricResource)) continue;
    const char* const key = each == &low.thresholds ? "thresholds" : "targetThresholds";
    args.error(key, fmt::format("{} is expected to specify a single instance of \"MetricResource\" "
                                "resource, got {} instead",
                                key, each->size()));
  }
}

rebalance::PluginArgs read_low(PolicyMap& args, bool fixed) {
  rebalance::LowNodeUtilizationArgs low;
  low.deviation = args.boolean("useDeviationThresholds");
  const std::size_t before = args.errors().count();
  low.thresholds = read_thresholds(args, "thresholds", "thresholds config is not valid: ");
  // The descheduler stops at the first of these mistakes.
  if (args.errors().count() == before) {
    low.target_thresholds =
        read_thresholds(args, "targetThresholds", "targetThresholds config is not valid: ");
  } else {
    (void)args.percents("targetThresholds");
  }
  if (args.errors().count() == before) compare_thresholds(args, low);
  low.number_of_nodes = args.integer("numberOfNodes").value_or(0);
  low.namespaces = read_evictable(args, fixed);
  PolicyMap limits = args.map("evictionLimits");
  low.evictions_per_node = limits.amount("node");
  limits.finish();
  low.metrics = read_metrics(args, low.query);
  if (args.errors().count() == before) check_metric_resource(args, low);
  return low;
}

rebalance::PluginArgs read_high(PolicyMap& args, bool fixed) {
  rebalance::HighNodeUtilizationArgs high;
  high.thresholds = read_thresholds(args, "thresholds", "");
  high.number_of_nodes = args.integer("numberOfNodes").value_or(0);
  high.namespaces = read_evictable(args, fixed);
  for (const std::string& mode : args.texts("evictionModes")) {
    if (mode != "OnlyThresholdingResources") {
      args.error("evictionModes", fmt::format("invalid eviction mode {}", mode));
    }
    high.only_thresholding_resources = true;
  }
  return high;
}

// A percentage under `key`, which may be missing.
std::optional<double> read_percent(PolicyMap& args, std::string_view key) {
  constexpr double kMost = 100;
  const auto percent = args.number(key);
  if (percent && !(*percent >= 0 && *percent <= kMost)) {
    args.error(key, fmt::format("{} must be a percentage from 0 to 100, found {}", key, *percent));
  }
  return percent;
}

// A number from 1 to `most` under `key`.
std::uint64_t read_count(PolicyMap& args, std::string_view key, std::uint64_t otherwise,
                         std::uint64_t most) {
  const auto given = args.amount(key);
  if (!given || (*given >= 1 && *given <= most)) return given.value_or(otherwise);
  args.error(key, fmt::format("{} must be a number from 1 to {}, found {}", key, most, *given));
  return otherwise;
}

rebalance::PluginArgs read_node_pressure(PolicyMap& args) {
  constexpr std::uint64_t kDay = 86'400;
  constexpr std::uint64_t kReportsMax = 100;
  rebalance::NodePressureArgs out;
  out.seconds_to_crossing = static_cast<double>(read_count(
      args, "secondsToCrossing", static_cast<std::uint64_t>(out.seconds_to_crossing), kDay));
  if (args.find("stallPercent") != nullptr) {
    PolicyMap stall = args.map("stallPercent");
    out.some_stall = read_percent(stall, "some");
    out.full_stall = read_percent(stall, "full");
    stall.finish();
  }
  out.consecutive_reports =
      read_count(args, "consecutiveReports", out.consecutive_reports, kReportsMax);
  out.max_report_age_seconds =
      read_count(args, "maxReportAgeSeconds", out.max_report_age_seconds, kDay);
  out.destination_headroom_percent =
      read_percent(args, "destinationHeadroomPercent").value_or(out.destination_headroom_percent);
  out.namespaces = read_evictable(args, true);
  PolicyMap limits = args.map("evictionLimits");
  out.evictions_per_node = limits.amount("node");
  limits.finish();
  return out;
}

rebalance::PluginArgs read_node_affinity(PolicyMap& args) {
  rebalance::NodeAffinityArgs out{read_scope(args), args.texts("nodeAffinityType")};
  if (out.types.empty()) args.error("nodeAffinityType", "nodeAffinityType needs to be set");
  return out;
}

rebalance::PluginArgs read_node_taints(PolicyMap& args) {
  rebalance::NodeTaintsArgs out;
  out.scope = read_scope(args);
  out.include_prefer_no_schedule = args.boolean("includePreferNoSchedule");
  if (args.find("includedTaints") != nullptr) out.included = args.texts("includedTaints");
  out.excluded = args.texts("excludedTaints");
  if (out.included && !out.included->empty() && !out.excluded.empty()) {
    args.error("excludedTaints",
               "either includedTaints or excludedTaints can be set, but not both");
  }
  return out;
}

rebalance::PluginArgs read_topology(PolicyMap& args) {
  rebalance::TopologySpreadArgs out;
  out.scope = read_scope(args);
  const auto constraints = args.texts("constraints");
  if (!constraints.empty()) out.constraints = constraints;
  for (const std::string& each : constraints) {
    if (each == "DoNotSchedule" || each == "ScheduleAnyway") continue;
    args.error("constraints", fmt::format("constraint {} is not one of "
                                          "map[DoNotSchedule:{{}} ScheduleAnyway:{{}}]",
                                          each));
  }
  out.node_fit = args.boolean("topologyBalanceNodeFit", true);
  return out;
}

rebalance::PluginArgs read_restarts(PolicyMap& args) {
  rebalance::TooManyRestartsArgs out;
  out.scope = read_scope(args);
  out.threshold = args.small_integer("podRestartThreshold").value_or(0);
  if (out.threshold < 1) {
    args.error("podRestartThreshold", "invalid PodsHavingTooManyRestarts threshold");
  }
  out.init_containers = args.boolean("includingInitContainers");
  out.states = args.texts("states");
  for (const std::string& each : out.states) {
    if (each == "CrashLoopBackOff" || each == "Running") continue;
    args.error("states", "states must be one of [CrashLoopBackOff Running]");
    break;
  }
  return out;
}

std::vector<rebalance::ConditionFilter> read_conditions(PolicyMap& args) {
  std::vector<rebalance::ConditionFilter> filters;
  for (const YamlNode& item : args.list("conditions")) {
    PolicyMap map(&item, args.errors(), "conditions.");
    rebalance::ConditionFilter filter{
        map.text("type").value_or(""), map.text("status").value_or(""),
        map.text("reason").value_or(""), map.amount("minTimeSinceLastTransitionSeconds")};
    map.finish();
    if (filter.type.empty() && filter.status.empty() && filter.reason.empty() &&
        !filter.min_seconds) {
      args.errors().refuse(item.at,
                           fmt::format("conditions[{}]: at least one of type, status, reason, or "
                                       "minTimeSinceLastTransitionSeconds must be set",
                                       filters.size()));
    }
    filters.push_back(std::move(filter));
  }
  return filters;
}

void check_states(PolicyMap& args, const std::vector<std::string>& states) {
  const bool known = std::all_of(states.begin(), states.end(), [](const std::string& each) {
    return listed(kLifeTimeStates, each);
  });
  if (known) return;
  std::vector<std::string_view> sorted(kLifeTimeStates.begin(), kLifeTimeStates.end());
  std::sort(sorted.begin(), sorted.end());
  args.error("states", fmt::format("states must be one of [{}]", fmt::join(sorted, " ")));
}

rebalance::PluginArgs read_life_time(PolicyMap& args) {
  rebalance::PodLifeTimeArgs out;
  out.scope = read_scope(args);
  out.owner_kinds =
      read_rule(args, "ownerKinds", "only one of Include/Exclude ownerKinds can be set");
  out.max_seconds = args.amount("maxPodLifeTimeSeconds");
  out.states = args.texts("states");
  check_states(args, out.states);
  out.conditions = read_conditions(args);
  out.exit_codes = args.small_integers("exitCodes");
  out.init_containers = args.boolean("includingInitContainers");
  out.ephemeral_containers = args.boolean("includingEphemeralContainers");
  if (!out.max_seconds && out.states.empty() && out.conditions.empty() && out.exit_codes.empty()) {
    args.error("",
               "at least one filtering criterion must be specified (maxPodLifeTimeSeconds, "
               "states, conditions, or exitCodes)");
  }
  return out;
}

rebalance::PluginArgs read_failed(PolicyMap& args) {
  constexpr std::uint64_t kDefaultSeconds = 3600;
  rebalance::PodLifeTimeArgs out;
  out.scope = read_scope(args);
  out.owner_kinds.exclude = as_set(args.texts("excludeOwnerKinds"));
  out.max_seconds = args.amount("minPodLifetimeSeconds").value_or(kDefaultSeconds);
  out.states = args.texts("reasons");
  out.exit_codes = args.small_integers("exitCodes");
  out.init_containers = args.boolean("includingInitContainers");
  out.failed_only = true;
  return out;
}

rebalance::PluginArgs read_known(std::string_view plugin, PolicyMap& args, bool fixed) {
  if (plugin == "LowNodeUtilization") return read_low(args, fixed);
  if (plugin == "HighNodeUtilization") return read_high(args, fixed);
  if (plugin == "RemoveDuplicates") {
    return rebalance::RemoveDuplicatesArgs{read_namespaces(args), args.texts("excludeOwnerKinds")};
  }
  if (plugin == "RemovePodsViolatingNodeAffinity") return read_node_affinity(args);
  if (plugin == "RemovePodsViolatingNodeTaints") return read_node_taints(args);
  if (plugin == "RemovePodsViolatingTopologySpreadConstraint") return read_topology(args);
  if (plugin == "RemovePodsHavingTooManyRestarts") return read_restarts(args);
  if (plugin == "PodLifeTime") return read_life_time(args);
  if (plugin == "RemoveFailedPods") return read_failed(args);
  if (plugin == kNodePressure) return read_node_pressure(args);
  return rebalance::InterPodAntiAffinityArgs{read_scope(args)};
}

}  // namespace

bool is_deschedule_plugin(std::string_view plugin) {
  return listed(kDeschedulePlugins, plugin);
}

bool is_balance_plugin(std::string_view plugin) {
  return listed(kBalancePlugins, plugin);
}

bool is_registered(std::string_view plugin) {
  return plugin == kDefaultEvictor || is_deschedule_plugin(plugin) || is_balance_plugin(plugin);
}

ConfiguredArgs read_plugin_args(std::string_view plugin, const YamlNode* args, text::Position at,
                                PolicyErrors& errors,
                                const std::vector<rebalance::PriorityClass>* classes, bool fixed) {
  YamlNode none;
  none.kind = YamlNode::Kind::map;
  none.at = at;
  errors.begin_part();
  PolicyMap map(args == nullptr || args->kind == YamlNode::Kind::null ? &none : args, errors);
  // Both are decoded with the arguments.
  (void)map.find("apiVersion");
  (void)map.find("kind");
  if (plugin == kDefaultEvictor) {
    rebalance::DefaultEvictorArgs evictor = read_evictor_args(map, classes);
    map.finish();
    errors.end_part();
    return evictor;
  }
  rebalance::PluginArgs read = read_known(plugin, map, fixed);
  map.finish();
  errors.end_part();
  return read;
}

}  // namespace forestall::descheduler
