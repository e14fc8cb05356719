// SPDX-License-Identifier: Apache-2.0
// One API object into the rebalancer's snapshot. Unknown keys are skipped, as everywhere in the
// API.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "rebalance/snapshot.h"
#include "text/json_value.h"

namespace forestall::descheduler {

// What the readers of objects share. `quantities` remembers the amounts that were parsed: a cluster
// has few distinct ones.
class ObjectReader {
 public:
  ObjectReader(rebalance::Snapshot& snapshot,
               std::unordered_map<std::string, rebalance::Nanos>& quantities)
      : snapshot_(snapshot), quantities_(quantities) {}

  // So many objects follow, most of them pods.
  void expect(std::size_t objects);
  // An object of one of the kinds of the snapshot; others are skipped.
  [[nodiscard]] Result<void> add(std::string_view kind, const text::JsonValue& object);
  // Drops what is kept for pods that follow, but no pod uses any more.
  void drop_unused() {
    std::erase_if(placements_, [](const auto& each) { return each.second.use_count() <= 1; });
  }
  // The result of an instant query: the API's answer, or its vector.
  [[nodiscard]] Result<void> add_prometheus(const text::JsonValue& answer);

 private:
  using Value = text::JsonValue;

  [[nodiscard]] Result<std::string_view> text(const Value& value);
  [[nodiscard]] Result<std::string_view> required_text(const Value& object, std::string_view key);
  [[nodiscard]] Result<std::vector<std::string_view>> texts(const Value& list);
  [[nodiscard]] Result<rebalance::Nanos> quantity(const Value& value);
  // Of a member, if it exists.
  [[nodiscard]] Result<std::optional<rebalance::Nanos>> quantity_in(const Value& object,
                                                                    std::string_view key);
  [[nodiscard]] Result<rebalance::Amounts> amounts(const Value& value);
  [[nodiscard]] Result<rebalance::Labels> labels(const Value& value);
  [[nodiscard]] Result<std::int64_t> time(const Value& value);
  [[nodiscard]] Result<rebalance::LabelSelector> selector(const Value& value);
  [[nodiscard]] Result<rebalance::Requirement> requirement(const Value& value);
  [[nodiscard]] Result<rebalance::NodeSelectorTerm> node_term(const Value& value);

  [[nodiscard]] Result<void> add_node(const Value& object);
  [[nodiscard]] Result<void> add_pod(const Value& object);
  [[nodiscard]] Result<void> add_namespace(const Value& object);
  [[nodiscard]] Result<void> add_budget(const Value& object);
  [[nodiscard]] Result<void> add_claim(const Value& object);
  [[nodiscard]] Result<void> add_volume(const Value& object);
  [[nodiscard]] Result<void> add_priority_class(const Value& object);
  [[nodiscard]] Result<std::optional<std::int64_t>> sample_time(const Value& object);
  [[nodiscard]] Result<void> add_node_metrics(const Value& object);
  [[nodiscard]] Result<void> add_pod_metrics(const Value& object);
  [[nodiscard]] Result<void> add_node_report(const Value& object);
  [[nodiscard]] Result<rebalance::ReportedThreshold> reported_threshold(const Value& value);
  [[nodiscard]] Result<rebalance::ReportedPod> reported_pod(const Value& value);
  [[nodiscard]] Result<void> add_prometheus_sample(const Value& sample);

  [[nodiscard]] Result<rebalance::Taint> taint(const Value& value);
  [[nodiscard]] Result<rebalance::PodToleration> toleration(const Value& value);
  [[nodiscard]] Result<void> pod_metadata(const Value& metadata, rebalance::ClusterPod& pod);
  [[nodiscard]] Result<void> pod_spec(const Value& spec, rebalance::ClusterPod& pod);
  [[nodiscard]] Result<void> pod_resources(const Value& spec, rebalance::ClusterPod& pod);
  [[nodiscard]] Result<void> pod_volume(const Value& volume, rebalance::ClusterPod& pod);
  [[nodiscard]] Result<void> pod_placement(const Value& spec, rebalance::ClusterPod& pod);
  [[nodiscard]] Result<void> node_affinity(const Value& affinity,
                                           rebalance::PodPlacement& placement);
  [[nodiscard]] Result<rebalance::PodAffinityTerm> pod_affinity_term(const Value& term);
  [[nodiscard]] Result<void> pod_affinity(const Value& affinity, std::string_view kind,
                                          std::vector<rebalance::PodAffinityTerm>& out);
  [[nodiscard]] Result<void> host_ports(const Value& container, rebalance::ClusterPod& pod);
  [[nodiscard]] Result<rebalance::SpreadConstraint> spread(const Value& constraint);
  [[nodiscard]] Result<void> pod_status(const Value& status, rebalance::ClusterPod& pod);
  [[nodiscard]] Result<rebalance::ContainerState> container_state(const Value& status);
  [[nodiscard]] Result<rebalance::PodCondition> condition(const Value& value);

  rebalance::Snapshot& snapshot_;
  std::unordered_map<std::string, rebalance::Nanos>& quantities_;
  // Of the last pod of each first owner, because the pods of a workload mostly have the same.
  std::unordered_map<std::string_view, std::shared_ptr<const rebalance::PodPlacement>> placements_;
};

}  // namespace forestall::descheduler
