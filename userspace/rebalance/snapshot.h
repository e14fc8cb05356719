// SPDX-License-Identifier: Apache-2.0
// What the rebalancer reads of a cluster at one time: the parts of the API objects that its rules
// use. Texts are views into the pool of the snapshot.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/pod.h"
#include "rebalance/amounts.h"
#include "rebalance/node_report.h"
#include "rebalance/selector.h"
#include "rebalance/string_pool.h"

namespace forestall::rebalance {

enum class TaintEffect : std::uint8_t { no_schedule, prefer_no_schedule, no_execute, other };

struct Taint {
  std::string_view key;
  std::string_view value;
  TaintEffect effect = TaintEffect::other;
};

// Gt and Lt compare the taint's value with that of the toleration.
enum class TolerationOperator : std::uint8_t { equal, exists, greater, less, unknown };

struct PodToleration {
  std::string_view key;
  std::string_view value;
  TolerationOperator op = TolerationOperator::equal;
  std::optional<TaintEffect> effect;  // nothing: every effect
};

// core/v1 Toleration.ToleratesTaint().
[[nodiscard]] bool tolerates(const PodToleration& toleration, const Taint& taint);

struct Node {
  std::string_view name;
  Labels labels;
  std::vector<Taint> taints;
  bool unschedulable = false;
  bool ready = true;  // no condition Ready with another status than True
  Amounts capacity;
  Amounts allocatable;
};

struct PodOwner {
  std::string_view kind;
  std::string_view name;
  std::string_view uid;
};

struct ContainerState {
  std::int32_t restarts = 0;
  bool waiting = false;
  bool terminated = false;
  std::string_view reason;  // of the state that is waiting or terminated
  std::int32_t exit_code = 0;
};

struct PodCondition {
  std::string_view type;
  std::string_view status;
  std::string_view reason;
  std::optional<std::int64_t> transition_ns;
};

// A required term of a pod's affinity or anti-affinity to pods.
struct PodAffinityTerm {
  std::optional<LabelSelector> selector;  // nothing selects no pod
  std::string_view topology_key;
  std::vector<std::string_view> namespaces;  // empty: that of the pod
  // More namespaces, by their labels. The descheduler ignores it.
  std::optional<LabelSelector> namespace_selector;

  friend bool operator==(const PodAffinityTerm&, const PodAffinityTerm&) = default;
};

// A port of the node that a container takes.
struct HostPort {
  std::string_view address;  // empty or 0.0.0.0: all
  std::string_view protocol;
  std::int64_t port = 0;
};

struct PreferredTerm {
  std::int32_t weight = 0;
  NodeSelectorTerm preference;

  friend bool operator==(const PreferredTerm&, const PreferredTerm&) = default;
};

struct SpreadConstraint {
  std::int32_t max_skew = 1;
  std::string_view topology_key;
  std::string_view when_unsatisfiable;
  std::optional<LabelSelector> selector;
  std::vector<std::string_view> match_label_keys;
  std::int64_t min_domains = 1;
  bool honors_node_affinity = true;
  bool honors_node_taints = false;

  friend bool operator==(const SpreadConstraint&, const SpreadConstraint&) = default;
};

// The parts that few pods have.
struct PodPlacement {
  std::vector<std::pair<std::string_view, std::string_view>> node_selector;
  bool has_node_affinity = false;
  std::optional<std::vector<NodeSelectorTerm>> required_nodes;
  std::vector<PreferredTerm> preferred_nodes;
  std::vector<PodAffinityTerm> anti_affinity;
  std::vector<PodAffinityTerm> pod_affinity;
  std::vector<SpreadConstraint> spread;

  friend bool operator==(const PodPlacement&, const PodPlacement&) = default;
};

struct ClusterPod {
  std::string_view pod_namespace;
  std::string_view name;
  std::string_view uid;
  std::string_view node;  // spec.nodeName; empty: not bound
  Labels labels;
  std::optional<std::int32_t> priority;
  QosClass qos = QosClass::best_effort;
  PodPhase phase = PodPhase::unknown;
  std::string_view phase_text;
  std::string_view reason;  // status.reason
  // 0: not given.
  std::int64_t created_ns = 0;
  std::optional<std::int64_t> started_ns;
  bool terminating = false;
  std::optional<std::int64_t> deleted_ns;  // when it was requested to terminate; nothing: unknown
  bool evict_annotation = false;           // with any value
  bool evict_refused = false;              // its value is "false"
  bool prefer_no_eviction = false;
  // A webhook may move it instead of its eviction, and does so now, by its annotations.
  bool background_allowed = false;
  bool background_in_progress = false;
  bool evicted_in_background = false;  // its eviction was requested, and counts in the limits
  bool mirror = false;
  bool static_pod = false;
  std::string_view refused;  // what the API server answered to its eviction lately; empty: nothing
  bool refused_in_plan = false;  // of this state: what was decided before that must stay
  bool preempts = true;          // preemptionPolicy is not Never
  bool local_storage = false;
  bool resource_claims = false;
  std::vector<std::string_view> claims;  // names of PersistentVolumeClaims
  std::vector<PodOwner> owners;
  std::vector<std::string_view> images;               // of the containers
  Amounts request;                                    // of the whole pod
  std::vector<std::string_view> requested_resources;  // that some container names
  std::vector<HostPort> host_ports;
  std::vector<PodToleration> tolerations;
  std::shared_ptr<const PodPlacement> placement;  // null: no rule; shared within a workload
  std::vector<ContainerState> containers;
  std::vector<ContainerState> init_containers;
  std::vector<ContainerState> ephemeral_containers;
  std::vector<PodCondition> conditions;
};

// Neither Succeeded nor Failed.
[[nodiscard]] inline bool is_live(const ClusterPod& pod) {
  return pod.phase != PodPhase::succeeded && pod.phase != PodPhase::failed;
}

// For so long after its deletion a pod counts as one that leaves: finalizers, or a grace period of
// hours, may keep it.
inline constexpr std::int64_t kLeavingSeconds = 600;

// Whether the pod terminates, and may be expected to be gone soon.
[[nodiscard]] bool leaves_soon(const ClusterPod& pod, std::int64_t now_ns);

struct ClusterNamespace {
  std::string_view name;
  Labels labels;
};

struct DisruptionBudget {
  std::string_view pod_namespace;
  std::string_view name;
  std::optional<LabelSelector> selector;  // nothing selects no pod
  std::int32_t disruptions_allowed = 0;
};

struct VolumeClaim {
  std::string_view pod_namespace;
  std::string_view name;
  std::string_view storage_class;  // empty: none
  std::string_view volume;         // spec.volumeName; empty: not bound
};

struct PersistentVolume {
  std::string_view name;
  Labels labels;
  std::optional<std::vector<NodeSelectorTerm>> nodes;  // spec.nodeAffinity.required
};

struct PriorityClass {
  std::string name;
  std::int32_t value = 0;
};

// One sample of metrics.k8s.io.
struct MetricsSample {
  std::string_view pod_namespace;  // of a pod
  std::string_view name;           // of the node or pod
  Amounts usage;
  // Of a pod: resources that some of its containers lack. `usage` has the sum of the others.
  std::vector<std::string_view> incomplete = {};
  std::optional<std::int64_t> time_ns = {};  // CLOCK_REALTIME; nothing: not given
};

// Whether the sample shows the present. One without a time counts as such.
[[nodiscard]] inline bool is_current(const MetricsSample& sample, std::int64_t now_ns) {
  return !sample.time_ns || is_current(*sample.time_ns, now_ns);
}

// Nothing: not measured, or not of all containers.
[[nodiscard]] std::optional<Nanos> measured(const MetricsSample& sample, std::string_view resource);

struct PrometheusSample {
  std::optional<std::string_view> instance;
  double value = 0;
};

// In a cluster, where each query of the policy has its own.
struct PrometheusAnswer {
  std::string query;
  std::vector<PrometheusSample> samples;
  std::string failure;  // why there are none; empty: there are
};

struct Snapshot {
  std::shared_ptr<StringPool> texts = std::make_shared<StringPool>();
  std::int64_t taken_ns = 0;  // CLOCK_REALTIME: the time for which the plan is made
  std::vector<Node> nodes;
  std::vector<ClusterPod> pods;
  std::vector<ClusterNamespace> namespaces;
  std::vector<DisruptionBudget> budgets;
  std::vector<VolumeClaim> claims;
  std::vector<PersistentVolume> volumes;
  std::vector<PriorityClass> priority_classes;
  std::vector<MetricsSample> node_metrics;   // in the order of their collection
  std::vector<MetricsSample> pod_metrics;    // the last one of a pod counts
  std::vector<PrometheusSample> prometheus;  // from files: of every query
  bool has_prometheus = false;
  std::vector<PrometheusAnswer> prometheus_answers;
  std::vector<NodeReport> reports;  // sorted: by node and time
};

// Brings nodes into the order of their names and pods into that of namespace and name, on which
// every decision between equal candidates rests; and reports into that of node and time.
void sort(Snapshot& snapshot);

}  // namespace forestall::rebalance
