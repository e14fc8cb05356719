// SPDX-License-Identifier: Apache-2.0
// Clusters and policies as text, through the readers that the commands use, and the plan for them.
#pragma once

#include <string>
#include <vector>

#include "rebalance/rebalance.h"

namespace forestall::rebalance::test {

// 2026-01-01T12:00:00Z.
inline constexpr std::int64_t kNow = 1'767'268'800'000'000'000;

struct NodeText {
  std::string cpu = "2000m";
  std::string memory = "3000";
  std::string pods = "10";
  std::string labels = {};  // members of a JSON object
  std::string taints = {};  // items of a JSON list
  bool cordoned = false;
  std::string status = {};  // further members of the status
};

struct PodText {
  std::string cpu = "100m";
  std::string memory = "0";
  std::string space = "default";
  std::string owner = "ReplicaSet/rs";  // KIND/NAME; empty: none
  std::string priority = {};
  std::string metadata = {};  // further members, each with a comma before it
  std::string spec = {};
  std::string status = {};
  std::string phase = "Running";
};

[[nodiscard]] std::string node_text(const std::string& name, const NodeText& text = {});
[[nodiscard]] std::string pod_text(const std::string& name, const std::string& node,
                                   const PodText& text = {});
// "p1" to "pN" on the node, all alike.
[[nodiscard]] std::vector<std::string> pods_text(const std::string& prefix, int count,
                                                 const std::string& node, const PodText& text = {});
[[nodiscard]] std::vector<std::string> operator+(std::vector<std::string> a,
                                                 const std::vector<std::string>& b);

// A policy with one profile "p" and one plugin. All in YAML's flow style; `top` ends with a comma.
[[nodiscard]] std::string policy_text(const std::string& plugin, const std::string& args,
                                      const std::string& evictor = "{}",
                                      const std::string& top = "");

struct World {
  Policy policy;
  Snapshot snapshot;
  RebalancePlan plan;

  // Names of the evicted pods, in order.
  [[nodiscard]] std::vector<std::string> evicted() const;
  [[nodiscard]] const PluginReport& run() const { return plan.profiles.at(0).plugins.at(0); }
  [[nodiscard]] const ConsideredPod* find(const std::string& pod) const;
  [[nodiscard]] NodeClass node_class(const std::string& node) const;
};

// Fails the test if a text is refused. The plan explains.
[[nodiscard]] World plan_for(const std::string& policy, const std::vector<std::string>& objects,
                             const std::vector<std::string>& metrics = {});

}  // namespace forestall::rebalance::test
