// SPDX-License-Identifier: Apache-2.0
#include "world.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "descheduler/cluster_snapshot.h"
#include "descheduler/descheduler_policy.h"

namespace forestall::rebalance::test {
namespace {

constexpr std::string_view kBalance[] = {"LowNodeUtilization", "HighNodeUtilization",
                                         "NodePressure", "RemoveDuplicates",
                                         "RemovePodsViolatingTopologySpreadConstraint"};

}  // namespace

std::string node_text(const std::string& name, const NodeText& text) {
  return fmt::format(
      R"({{"kind": "Node", "metadata": {{"name": "{}", "labels": {{{}}}}}, "spec": {{"taints": )"
      R"([{}]{}}}, "status": {{"allocatable": {{"cpu": "{}", "memory": "{}", "pods": "{}"}}{}}}}})",
      name, text.labels, text.taints, text.cordoned ? R"(, "unschedulable": true)" : "", text.cpu,
      text.memory, text.pods, text.status);
}

std::string pod_text(const std::string& name, const std::string& node, const PodText& text) {
  std::string owners;
  if (!text.owner.empty()) {
    const std::size_t slash = text.owner.find('/');
    owners = fmt::format(R"(, "ownerReferences": [{{"kind": "{}", "name": "{}", "uid": "{}"}}])",
                         text.owner.substr(0, slash), text.owner.substr(slash + 1), text.owner);
  }
  const std::string priority =
      text.priority.empty() ? "" : fmt::format(R"(, "priority": {})", text.priority);
  return fmt::format(
      R"({{"kind": "Pod", "metadata": {{"name": "{}", "namespace": "{}", "uid": "uid-{}")"
      R"({}{}}}, "spec": {{"nodeName": "{}", "containers": [{{"name": "c", "image": "i",)"
      R"( "resources": {{"requests": {{"cpu": "{}", "memory": "{}"}}}}}}]{}{}}},)"
      R"( "status": {{"phase": "{}"{}}}}})",
      name, text.space, name, owners, text.metadata, node, text.cpu, text.memory, priority,
      text.spec, text.phase, text.status);
}

std::vector<std::string> pods_text(const std::string& prefix, int count, const std::string& node,
                                   const PodText& text) {
  std::vector<std::string> all;
  for (int i = 1; i <= count; ++i)
    all.push_back(pod_text(fmt::format("{}{}", prefix, i), node, text));
  return all;
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string policy_text(const std::string& plugin, const std::string& args,
                        const std::string& evictor, const std::string& top) {
  const bool balance =
      std::find(std::begin(kBalance), std::end(kBalance), plugin) != std::end(kBalance);
  return fmt::format(
      "{{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy, {}profiles: [{{name: p, "
      "pluginConfig: [{{name: DefaultEvictor, args: {}}}, {{name: {}, args: {}}}], plugins: "
      "{{{}: {{enabled: [{}]}}}}}}]}}",
      top, evictor, plugin, args, balance ? "balance" : "deschedule", plugin);
}

std::vector<std::string> World::evicted() const {
  std::vector<std::string> names;
  for (const PodEviction& each : plan.evictions) {
    if (each.refused.empty()) names.emplace_back(snapshot.pods[each.pod].name);
  }
  return names;
}

const ConsideredPod* World::find(const std::string& pod) const {
  for (const ConsideredPod& each : run().pods) {
    if (snapshot.pods[each.pod].name == pod) return &each;
  }
  return nullptr;
}

NodeClass World::node_class(const std::string& node) const {
  for (const ClassifiedNode& each : run().nodes) {
    if (snapshot.nodes[each.node].name == node) return each.node_class;
  }
  ADD_FAILURE() << node << " was not classified";
  return NodeClass::appropriate;
}

World plan_for(const std::string& policy, const std::vector<std::string>& objects,
               const std::vector<std::string>& metrics) {
  World world;
  descheduler::ClusterSnapshotReader reader;
  for (const auto* const list : {&objects, &metrics}) {
    for (const std::string& each : *list) {
      const auto added = reader.add(each);
      EXPECT_TRUE(added) << added.error().text() << "\n" << each;
    }
  }
  world.snapshot = reader.take(kNow);
  text::Findings findings;
  auto parsed = descheduler::parse_descheduler_policy("policy.yaml", policy,
                                                      &world.snapshot.priority_classes, findings);
  EXPECT_TRUE(parsed) << text::format(findings.errors) << "\n" << policy;
  if (!parsed) return world;
  world.policy = std::move(parsed->policy);
  CycleOptions options;
  options.explain = true;
  world.plan = rebalance(world.policy, world.snapshot, options);
  return world;
}

}  // namespace forestall::rebalance::test
