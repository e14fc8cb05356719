// SPDX-License-Identifier: Apache-2.0
// A DeschedulerPolicy as the rebalancer applies it: checked, with all defaults filled in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "rebalance/corrections.h"
#include "rebalance/move_memory.h"
#include "rebalance/node_report.h"
#include "rebalance/selector.h"

namespace forestall::rebalance {

// At most one of the two is set.
struct NamespaceRule {
  std::set<std::string, std::less<>> include;
  std::set<std::string, std::less<>> exclude;

  [[nodiscard]] bool accepts_all() const { return include.empty() && exclude.empty(); }
  // Whether the rule accepts the namespace.
  [[nodiscard]] bool accepts(std::string_view name) const {
    if (!include.empty() && !include.contains(name)) return false;
    return !exclude.contains(name);
  }
};

enum class NoEvictionPolicy : std::uint8_t { preferred, mandatory };

enum class PodProtection : std::uint8_t {
  pods_with_local_storage,
  system_critical_pods,
  failed_bare_pods,
  daemon_set_pods,
  pods_with_pvc,
  pods_without_pdb,
  pods_with_resource_claims,
};

// "PodsWithLocalStorage", ...
[[nodiscard]] std::string_view to_string(PodProtection each);
[[nodiscard]] std::optional<PodProtection> parse_protection(std::string_view word);

inline constexpr std::int32_t kSystemCriticalPriority = 2'000'000'000;

struct DefaultEvictorArgs {
  LabelSelector node_selector;
  std::optional<LabelSelector> label_selector;
  std::optional<LabelSelector> namespace_selector;
  std::int32_t priority_threshold = kSystemCriticalPriority;
  bool node_fit = false;
  std::uint64_t min_replicas = 0;
  std::optional<Duration> min_pod_age;
  NoEvictionPolicy no_eviction = NoEvictionPolicy::preferred;
  std::set<PodProtection> protections = {
      PodProtection::pods_with_local_storage, PodProtection::system_critical_pods,
      PodProtection::failed_bare_pods, PodProtection::daemon_set_pods};  // in force
  std::set<std::string, std::less<>> protected_storage_classes;          // empty: all
};

using Thresholds = std::map<std::string, double, std::less<>>;  // percent by resource

enum class MetricsSource : std::uint8_t { requests, kubernetes, prometheus, empty, unknown };

struct LowNodeUtilizationArgs {
  Thresholds thresholds;
  Thresholds target_thresholds;
  bool deviation = false;
  std::int64_t number_of_nodes = 0;
  NamespaceRule namespaces;
  std::optional<std::uint64_t> evictions_per_node;
  MetricsSource metrics = MetricsSource::requests;
  std::string query = {};  // of Prometheus
};

struct HighNodeUtilizationArgs {
  Thresholds thresholds;
  std::int64_t number_of_nodes = 0;
  bool only_thresholding_resources = false;
  NamespaceRule namespaces;
};

// Which pods a plugin considers.
struct PodScope {
  NamespaceRule namespaces;
  std::optional<LabelSelector> selector;
};

struct RemoveDuplicatesArgs {
  NamespaceRule namespaces;
  std::vector<std::string> exclude_owner_kinds;
};

struct InterPodAntiAffinityArgs {
  PodScope scope;
};

struct NodeAffinityArgs {
  PodScope scope;
  std::vector<std::string> types;
};

struct NodeTaintsArgs {
  PodScope scope;
  bool include_prefer_no_schedule = false;
  // key, or key=value; nothing: all. An empty list includes no taint.
  std::optional<std::vector<std::string>> included;
  std::vector<std::string> excluded;
};

struct TopologySpreadArgs {
  PodScope scope;
  std::vector<std::string> constraints = {"DoNotSchedule"};
  bool node_fit = true;
};

struct TooManyRestartsArgs {
  PodScope scope;
  std::int32_t threshold = 0;
  bool init_containers = false;
  std::vector<std::string> states;
};

struct ConditionFilter {
  std::string type;
  std::string status;
  std::string reason;
  std::optional<std::uint64_t> min_seconds;  // since the last transition
};

// Also of RemoveFailedPods, which is PodLifeTime for failed pods.
struct PodLifeTimeArgs {
  PodScope scope;
  NamespaceRule owner_kinds;
  std::optional<std::uint64_t> max_seconds;  // older pods only
  std::vector<std::string> states;
  std::vector<ConditionFilter> conditions;
  std::vector<std::int32_t> exit_codes;
  bool init_containers = false;
  bool ephemeral_containers = false;
  bool failed_only = false;
};

// Not of the descheduler. What makes a node a source: a threshold of memory that is crossed within
// the time, or a stall above a limit.
struct NodePressureArgs {
  double seconds_to_crossing = 600;
  std::optional<double> some_stall;  // percent of the time
  std::optional<double> full_stall = 10;
  std::uint64_t consecutive_reports = 3;  // that must agree
  std::uint64_t max_report_age_seconds = kMeasurementAgeSeconds;
  double destination_headroom_percent = 10;  // of its memory, that a destination keeps
  NamespaceRule namespaces;
  std::optional<std::uint64_t> evictions_per_node;
};

using PluginArgs =
    std::variant<LowNodeUtilizationArgs, HighNodeUtilizationArgs, RemoveDuplicatesArgs,
                 InterPodAntiAffinityArgs, NodeAffinityArgs, NodeTaintsArgs, TopologySpreadArgs,
                 TooManyRestartsArgs, PodLifeTimeArgs, NodePressureArgs>;

struct ProfilePlugin {
  std::string name;
  PluginArgs args;
};

struct Profile {
  std::string name;
  // Not of the descheduler. Of the nodes that the policy selects, those that its plugins process;
  // nothing: all.
  std::optional<LabelSelector> node_selector = {};
  DefaultEvictorArgs evictor;
  std::vector<ProfilePlugin> deschedule;
  std::vector<ProfilePlugin> balance;
};

// Not of the descheduler. Of the pods of low priority that hold the room for moved pods.
struct PlaceholderSettings {
  std::string pod_namespace = "forestall-placeholders";
  std::string priority_class = "forestall-placeholder";
  std::string image = "registry.k8s.io/pause:3.10";
  std::uint64_t seconds = 300;  // that one holds the room at most

  friend bool operator==(const PlaceholderSettings&, const PlaceholderSettings&) = default;
};

struct Policy {
  Corrections corrections;
  std::optional<Pacing> pacing;                    // nothing: see pacing_of()
  std::optional<PlaceholderSettings> placeholder;  // nothing: rooms are booked only
  LabelSelector node_selector;
  std::optional<std::uint64_t> evictions_per_node;
  std::optional<std::uint64_t> evictions_per_namespace;
  std::optional<std::uint64_t> evictions_total;
  bool kubernetes_metrics = false;  // a provider is configured
  bool prometheus = false;
  std::vector<Profile> profiles;
};

// As given. Otherwise moves are remembered for an hour if there are corrections, and not at all if
// the policy decides as the descheduler.
[[nodiscard]] Pacing pacing_of(const Policy& policy);

}  // namespace forestall::rebalance
