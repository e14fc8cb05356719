// SPDX-License-Identifier: Apache-2.0
// The cluster of a simulation: what pods use, where the scheduler places them, and which of them
// the kubelet and the kernel end. See simulation.h for the model.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rebalance/simulation.h"
#include "rebalance/snapshot.h"

namespace forestall::rebalance {

inline constexpr std::int64_t kStepSeconds = 60;
inline constexpr std::int64_t kSecondsPerHour = 3600;
inline constexpr double kNodeMib = 64 * 1024;

// Random numbers that are the same on every platform: splitmix64.
class SimulationDice {
 public:
  explicit SimulationDice(std::uint64_t seed) : state_(seed) {}
  [[nodiscard]] std::uint64_t next();
  [[nodiscard]] double share();  // from 0 to below 1
  [[nodiscard]] double between(double least, double most);

 private:
  std::uint64_t state_;
};

struct SimulatedWorkload {
  std::string name;
  double request_mib = 0;
  double request_cpu = 0;
  double use = 0;   // share of the request in the mean
  double wave = 0;  // share of the use, up and down
  double phase = 0;
  double leak_mib_per_second = 0;
};

// A replica, which comes back as another pod after each eviction.
struct SimulatedPod {
  std::size_t workload = 0;
  std::size_t node = 0;
  std::string name;
  std::int64_t created = 0;
  std::int64_t started = 0;  // the process
  std::int64_t burst_until = 0;
  std::int64_t moved = 0;  // by the policy
  double used_mib = 0;
  double growth_mib_per_second = 0;  // without bursts
};

struct SimulatedNode {
  std::string name;
  std::vector<std::size_t> pods;
  double requested_mib = 0;
  double requested_cpu = 0;
  double available_mib = 0;
  // The last reports, oldest first.
  struct Reading {
    std::int64_t time = 0;
    double available_mib = 0;
    double growth_mib_per_second = 0;
  };
  std::deque<Reading> readings;
};

struct StepResult {
  std::uint64_t evictions = 0;
  std::uint64_t kills = 0;
};

class SimulatedCluster {
 public:
  explicit SimulatedCluster(const SimulationOptions& options);

  // What happens until `now`.
  StepResult advance(std::int64_t now);
  // What the API server, metrics-server and the nodes' reports have.
  [[nodiscard]] Snapshot snapshot(std::int64_t now) const;
  // Evicts the pod. Its replacement runs on node `to`, or where the scheduler places it. Returns
  // when the replica was moved before; long ago if never.
  std::int64_t move(std::string_view pod, std::optional<std::size_t> to, std::int64_t now);

  // In the order of their names, as the nodes of a sorted snapshot.
  [[nodiscard]] const std::vector<SimulatedNode>& nodes() const { return nodes_; }

 private:
  [[nodiscard]] std::size_t schedule(std::size_t pod) const;
  void put(std::size_t pod, std::size_t node, std::int64_t now);
  void remove(std::size_t pod);
  void use_memory(SimulatedPod& pod, std::int64_t now);
  void read(SimulatedNode& node, std::int64_t now) const;
  StepResult relieve(SimulatedNode& node, std::int64_t now);
  void add_objects(Snapshot& snapshot, const SimulatedPod& pod) const;
  void add_reports(Snapshot& snapshot, const SimulatedNode& node) const;

  SimulationDice dice_;
  std::vector<SimulatedWorkload> workloads_;
  std::vector<SimulatedPod> pods_;
  std::vector<SimulatedNode> nodes_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::size_t created_ = 0;  // pods so far
};

}  // namespace forestall::rebalance
