// SPDX-License-Identifier: Apache-2.0
#include "rebalance/simulated_cluster.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <tuple>
#include <utility>

namespace forestall::rebalance {
namespace {

constexpr double kNodeCpu = 16;
constexpr std::size_t kNodePods = 110;
// Of all nodes, in the mean; and by how much the requests of workloads differ.
constexpr double kRequestedMemory = 0.85;
constexpr double kRequestedCpu = 0.5;
constexpr double kSpread = 0.6;
constexpr double kEvictionMib = 1280;  // the kubelet's hard threshold
constexpr double kBurstMib = 2048;
constexpr std::int64_t kBurstSeconds = 300;
constexpr double kBurstChance = 0.00003;  // of a pod in a step
constexpr std::int64_t kDaySeconds = 86'400;
constexpr std::int64_t kLongAgo = -kDaySeconds;
constexpr std::size_t kReadings = 3;  // reports of a node that are kept
constexpr double kStallShare = 0.05;  // of the node available, below which it stalls
constexpr double kStallMost = 40;     // percent of the time
constexpr std::int64_t kMib = std::int64_t{1} << 20;
// 2026-01-01T00:00:00Z.
constexpr std::int64_t kStartSeconds = 1'767'225'600;

Nanos bytes_of(double mib) {
  return static_cast<Nanos>(static_cast<std::int64_t>(mib * static_cast<double>(kMib))) *
         kNanosPerUnit;
}

Nanos cpus_of(double cpus) {
  constexpr double kMilli = 1000;
  return static_cast<Nanos>(static_cast<std::int64_t>(cpus * kMilli)) * kNanosPerMilli;
}

std::int64_t time_of(std::int64_t seconds) {
  return (kStartSeconds + seconds) * kNanosPerUnit;
}

// Names of one length, so that their order is that of the numbers.
std::string node_name(std::uint64_t number) {
  constexpr std::size_t kDigits = 5;
  std::string digits = std::to_string(number);
  digits.insert(0, kDigits - std::min(kDigits, digits.size()), '0');
  return "node-" + digits;
}

}  // namespace

std::uint64_t SimulationDice::next() {
  state_ += 0x9e3779b97f4a7c15ULL;
  std::uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebULL;
  return mixed ^ (mixed >> 31U);
}

double SimulationDice::share() {
  constexpr double kScale = 1.0 / 9007199254740992.0;  // 2^-53
  return static_cast<double>(next() >> 11U) * kScale;
}

double SimulationDice::between(double least, double most) {
  return least + (most - least) * share();
}

SimulatedCluster::SimulatedCluster(const SimulationOptions& options) : dice_(options.seed) {
  constexpr double kReplicasLeast = 2;
  constexpr double kReplicasMost = 11;
  constexpr std::uint64_t kLeaksOneIn = 12;
  for (std::uint64_t i = 0; i < options.nodes; ++i) nodes_.emplace_back().name = node_name(i);
  const std::uint64_t wanted = options.nodes * options.pods_per_node;
  const double mean_mib = kNodeMib * kRequestedMemory / static_cast<double>(options.pods_per_node);
  const double mean_cpu = kNodeCpu * kRequestedCpu / static_cast<double>(options.pods_per_node);
  while (pods_.size() < wanted) {
    SimulatedWorkload workload;
    workload.name = "app-" + std::to_string(workloads_.size());
    workload.request_mib = std::floor(mean_mib * dice_.between(1 - kSpread, 1 + kSpread));
    workload.request_cpu = mean_cpu * dice_.between(1 - kSpread, 1 + kSpread);
    workload.use = dice_.between(0.4, 1.1);
    workload.wave = dice_.between(0, 0.4);
    // Most load is by day.
    workload.phase = dice_.between(-0.8, 0.8);
    const auto replicas = static_cast<std::size_t>(dice_.between(kReplicasLeast, kReplicasMost));
    if (dice_.next() % kLeaksOneIn == 0) workload.leak_mib_per_second = dice_.between(0.03, 0.15);
    for (std::size_t i = 0; i < replicas && pods_.size() < wanted; ++i) {
      SimulatedPod pod;
      pod.workload = workloads_.size();
      pod.moved = kLongAgo;
      // Leaks began at different times.
      pod.started = -static_cast<std::int64_t>(dice_.between(0, kDaySeconds / 4.0));
      pod.created = kLongAgo;
      pods_.push_back(std::move(pod));
    }
    workloads_.push_back(std::move(workload));
  }
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    const std::int64_t started = pods_[i].started;
    put(i, schedule(i), kLongAgo);
    pods_[i].started = started;
  }
}

// Of the nodes with room: one with the fewest pods of the workload, then the one that requests fill
// least. Without room anywhere, the same among all.
std::size_t SimulatedCluster::schedule(std::size_t index) const {
  const std::size_t own = pods_[index].workload;
  const SimulatedWorkload& workload = workloads_[own];
  using Key = std::tuple<bool, std::ptrdiff_t, double>;
  std::optional<Key> best;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const SimulatedNode& node = nodes_[i];
    const double memory = (node.requested_mib + workload.request_mib) / kNodeMib;
    const double cpu = (node.requested_cpu + workload.request_cpu) / kNodeCpu;
    const bool full = memory > 1 || cpu > 1 || node.pods.size() >= kNodePods;
    // A terminating pod does not count here, as in the scheduler's spreading.
    const std::ptrdiff_t siblings = std::ranges::count_if(
        node.pods, [&](std::size_t each) { return each != index && pods_[each].workload == own; });
    const Key key(full, siblings, std::max(memory, cpu));
    if (best && key >= *best) continue;
    best = key;
    chosen = i;
  }
  return chosen;
}

void SimulatedCluster::put(std::size_t index, std::size_t on, std::int64_t now) {
  SimulatedPod& pod = pods_[index];
  const SimulatedWorkload& workload = workloads_[pod.workload];
  SimulatedNode& node = nodes_[on];
  node.pods.push_back(index);
  node.requested_mib += workload.request_mib;
  node.requested_cpu += workload.request_cpu;
  pod.node = on;
  pod.name = workload.name + "-" + std::to_string(created_++);
  pod.created = now;
  pod.started = now;
  pod.burst_until = 0;
  use_memory(pod, now);
  node.available_mib -= pod.used_mib;
  by_name_[pod.name] = index;
}

void SimulatedCluster::remove(std::size_t index) {
  SimulatedPod& pod = pods_[index];
  SimulatedNode& node = nodes_[pod.node];
  const SimulatedWorkload& workload = workloads_[pod.workload];
  std::erase(node.pods, index);
  node.requested_mib -= workload.request_mib;
  node.requested_cpu -= workload.request_cpu;
  node.available_mib += pod.used_mib;
  by_name_.erase(pod.name);
}

void SimulatedCluster::use_memory(SimulatedPod& pod, std::int64_t now) {
  const SimulatedWorkload& workload = workloads_[pod.workload];
  const double angle =
      2 * std::numbers::pi * (static_cast<double>(now) / static_cast<double>(kDaySeconds) - 0.25) +
      workload.phase;
  const double mean = workload.request_mib * workload.use;
  const double base = mean * (1 + workload.wave * std::sin(angle));
  const double leaked = workload.leak_mib_per_second *
                        static_cast<double>(std::max<std::int64_t>(now - pod.started, 0));
  pod.used_mib = base + leaked + (pod.burst_until > now ? kBurstMib : 0);
  pod.growth_mib_per_second =
      workload.leak_mib_per_second + mean * workload.wave * std::cos(angle) * 2 * std::numbers::pi /
                                         static_cast<double>(kDaySeconds);
}

void SimulatedCluster::read(SimulatedNode& node, std::int64_t now) const {
  SimulatedNode::Reading reading{.time = now, .available_mib = node.available_mib};
  for (const std::size_t each : node.pods) {
    reading.growth_mib_per_second += pods_[each].growth_mib_per_second;
  }
  node.readings.push_back(reading);
  if (node.readings.size() > kReadings) node.readings.pop_front();
}

// The kernel kills the largest process if nothing is left; otherwise the kubelet evicts.
StepResult SimulatedCluster::relieve(SimulatedNode& node, std::int64_t now) {
  StepResult result;
  const auto over_request = [&](std::size_t index) {
    return pods_[index].used_mib - workloads_[pods_[index].workload].request_mib;
  };
  while (node.available_mib < 0 && !node.pods.empty()) {
    const std::size_t victim = *std::ranges::max_element(
        node.pods, {}, [&](std::size_t each) { return pods_[each].used_mib; });
    SimulatedPod& pod = pods_[victim];
    const double before = pod.used_mib;
    pod.started = now;
    pod.burst_until = 0;
    use_memory(pod, now);
    ++result.kills;
    node.available_mib += before - pod.used_mib;
    if (before - pod.used_mib < 1) break;  // it needs that much
  }
  if (node.available_mib < kEvictionMib && !node.pods.empty()) {
    const std::size_t victim = *std::ranges::max_element(node.pods, {}, over_request);
    // An evicted pod has failed, so its requests count no longer.
    remove(victim);
    put(victim, schedule(victim), now);
    ++result.evictions;
  }
  return result;
}

StepResult SimulatedCluster::advance(std::int64_t now) {
  for (SimulatedPod& each : pods_) {
    if (dice_.share() < kBurstChance) each.burst_until = now + kBurstSeconds;
    use_memory(each, now);
  }
  for (SimulatedNode& node : nodes_) {
    node.available_mib = kNodeMib;
    for (const std::size_t each : node.pods) node.available_mib -= pods_[each].used_mib;
  }
  StepResult all;
  for (SimulatedNode& node : nodes_) {
    const StepResult result = relieve(node, now);
    all.evictions += result.evictions;
    all.kills += result.kills;
  }
  for (SimulatedNode& node : nodes_) read(node, now);
  return all;
}

std::int64_t SimulatedCluster::move(std::string_view name, std::optional<std::size_t> to,
                                    std::int64_t now) {
  const std::size_t index = by_name_.at(std::string(name));
  const std::int64_t before = std::exchange(pods_[index].moved, now);
  // The replacement is scheduled while the evicted pod terminates, and its requests still count.
  const std::size_t target = to ? *to : schedule(index);
  remove(index);
  put(index, target, now);
  return before;
}

void SimulatedCluster::add_objects(Snapshot& snapshot, const SimulatedPod& pod) const {
  const SimulatedWorkload& workload = workloads_[pod.workload];
  ClusterPod out;
  out.pod_namespace = "default";
  out.name = snapshot.texts->keep(pod.name);
  out.uid = out.name;
  out.node = snapshot.texts->keep(nodes_[pod.node].name);
  out.qos = QosClass::burstable;
  out.phase = PodPhase::running;
  out.phase_text = "Running";
  out.created_ns = time_of(pod.created);
  out.started_ns = out.created_ns;
  const std::string_view owner = snapshot.texts->keep(workload.name);
  out.owners = {{"ReplicaSet", owner, owner}};
  out.images = {owner};
  out.request.at(kCpu) = cpus_of(workload.request_cpu);
  out.request.at(kMemory) = bytes_of(workload.request_mib);
  out.requested_resources = {kCpu, kMemory};
  MetricsSample sample{.pod_namespace = "default", .name = out.name, .usage = {}};
  constexpr double kCpuUse = 0.5;
  sample.usage.at(kCpu) = cpus_of(workload.request_cpu * kCpuUse);
  sample.usage.at(kMemory) = bytes_of(pod.used_mib);
  snapshot.pods.push_back(std::move(out));
  snapshot.pod_metrics.push_back(std::move(sample));
}

void SimulatedCluster::add_reports(Snapshot& snapshot, const SimulatedNode& node) const {
  for (std::size_t i = 0; i < node.readings.size(); ++i) {
    const SimulatedNode::Reading& reading = node.readings[i];
    NodeReport report;
    report.node = snapshot.texts->keep(node.name);
    report.time_ns = time_of(reading.time);
    report.capacity = bytes_of(kNodeMib);
    report.working_set = bytes_of(kNodeMib - reading.available_mib);
    const double short_of = kStallShare - reading.available_mib / kNodeMib;
    report.full = std::clamp(short_of / kStallShare * kStallMost, 0.0, kStallMost);
    const Nanos growth = bytes_of(reading.growth_mib_per_second);
    ReportedThreshold threshold{
        .signal = "memory.available", .growth = growth, .seconds = std::nullopt};
    threshold.headroom = bytes_of(reading.available_mib - kEvictionMib);
    if (growth > 0) {
      threshold.seconds = static_cast<double>(threshold.headroom) / static_cast<double>(growth);
    }
    report.thresholds.push_back(threshold);
    if (i + 1 == node.readings.size()) {
      for (const std::size_t each : node.pods) {
        const SimulatedPod& pod = pods_[each];
        ReportedPod listed;
        listed.pod_namespace = "default";
        listed.name = snapshot.texts->keep(pod.name);
        listed.working_set = bytes_of(pod.used_mib);
        listed.growth = bytes_of(pod.growth_mib_per_second);
        report.pods.push_back(listed);
      }
    }
    snapshot.reports.push_back(std::move(report));
  }
}

Snapshot SimulatedCluster::snapshot(std::int64_t now) const {
  Snapshot snapshot;
  snapshot.taken_ns = time_of(now);
  snapshot.has_prometheus = true;
  for (const SimulatedNode& each : nodes_) {
    Node node;
    node.name = snapshot.texts->keep(each.name);
    node.allocatable.at(kCpu) = cpus_of(kNodeCpu);
    node.allocatable.at(kMemory) = bytes_of(kNodeMib);
    node.allocatable.at(kPods) = nanos_of(kPods, kNodePods);
    node.capacity = node.allocatable;
    MetricsSample sample{.pod_namespace = {}, .name = node.name, .usage = {}};
    sample.usage.at(kCpu) = cpus_of(each.requested_cpu / 2);
    sample.usage.at(kMemory) = bytes_of(kNodeMib - each.available_mib);
    // As a query for the share of the memory in use, which counts no pods.
    snapshot.prometheus.push_back({node.name, 1 - each.available_mib / kNodeMib});
    snapshot.nodes.push_back(std::move(node));
    snapshot.node_metrics.push_back(std::move(sample));
    add_reports(snapshot, each);
  }
  for (const SimulatedPod& each : pods_) add_objects(snapshot, each);
  sort(snapshot);
  return snapshot;
}

}  // namespace forestall::rebalance
