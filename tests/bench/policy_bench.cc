// SPDX-License-Identifier: Apache-2.0
// Cost of one step of the policy by number of workloads: the short path (nothing met: almost every
// evaluation) and the full path (met: rank all, choose one).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "model/config.h"
#include "model/observation.h"
#include "policy/step.h"

namespace forestall::policy {
namespace {

WorkloadSample pod(std::uint64_t number, std::mt19937_64& random) {
  WorkloadSample sample;
  sample.workload.cgroup = {number + 1};
  sample.workload.path = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" +
                         std::to_string(number) + "_0c1d_4e5f_8a9b_0123456789ab.slice";
  sample.workload.kind = WorkloadKind::pod;
  sample.workload.name = "default/pod-" + std::to_string(number);
  sample.workload.pod_uid = std::to_string(number) + "-0c1d-4e5f-8a9b-0123456789ab";
  sample.workload.priority = static_cast<std::int32_t>(random() % 4) * 1000;
  sample.workload.memory_request = mib(static_cast<std::int64_t>(random() % 512));
  if (random() % 50 == 0) sample.workload.protection = Protection::static_pod;
  sample.usage = mib(static_cast<std::int64_t>(random() % 1024));
  sample.inactive_file = mib(static_cast<std::int64_t>(random() % 64));
  sample.processes = 1 + random() % 8;
  return sample;
}

Observation node(std::int64_t workloads, Bytes available) {
  std::mt19937_64 random(1);
  Observation observation;
  observation.node.capacity = gib(256);
  observation.node.usage = gib(256) - available;
  observation.node.inactive_file = Bytes{0};
  observation.workloads.emplace();
  for (std::int64_t i = 0; i < workloads; ++i) {
    observation.workloads->push_back(pod(static_cast<std::uint64_t>(i), random));
  }
  return observation;
}

Config kubelet_default() {
  Config config;
  Threshold threshold;
  threshold.limit = Limit::bytes(mib(100));
  config.thresholds.push_back(threshold);
  return config;
}

// No threshold is met; the policy must not read the workloads.
void quick_path(benchmark::State& state) {
  const Config config = kubelet_default();
  const Observation observation = node(state.range(0), gib(10));
  for (auto _ : state) benchmark::DoNotOptimize(step(config, {}, observation));
}
BENCHMARK(quick_path)->RangeMultiplier(10)->Range(10, 10'000);

// Kubelet's five defaults, PIDs and the derived thresholds, in consecutive evaluations.
void quick_path_all_signals(benchmark::State& state) {
  Config config = kubelet_default();
  for (const auto& [signal, share] : {std::pair{Signal::nodefs_available, 0.10F},
                                      {Signal::nodefs_inodes_free, 0.05F},
                                      {Signal::imagefs_available, 0.15F},
                                      {Signal::imagefs_inodes_free, 0.05F},
                                      {Signal::pid_available, 0.05F}}) {
    Threshold threshold;
    threshold.signal = signal;
    threshold.limit = Limit::share(share);
    config.thresholds.push_back(threshold);
  }
  Observation observation = node(state.range(0), gib(10));
  observation.filesystems.layout = FilesystemLayout::single;
  observation.filesystems.nodefs = FilesystemSample{
      .available = gib(50), .capacity = gib(100), .inodes_free = 900, .inodes = 1000, .at = {}};
  observation.filesystems.imagefs = observation.filesystems.nodefs;
  observation.filesystems.containerfs = observation.filesystems.nodefs;
  observation.tasks = {.capacity = 32768, .running = 3000, .at = {}};
  State carried;
  for (auto _ : state) {
    observation.at += std::chrono::milliseconds(100);
    Step now = step(config, carried, observation);
    carried = std::move(now.state);
    benchmark::DoNotOptimize(now.decision);
  }
}
BENCHMARK(quick_path_all_signals)->Arg(1000);

// No threshold is met in as many watched cgroups.
void quick_path_watched(benchmark::State& state) {
  Config config = kubelet_default();
  config.thresholds[0].signal = Signal::cgroup_memory_available;
  Observation observation = node(0, gib(10));
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    observation.watched.push_back({.id = {static_cast<std::uint64_t>(i) + 1},
                                   .path = "/system.slice/service-" + std::to_string(i),
                                   .usage = mib(200),
                                   .inactive_file = mib(10),
                                   .limit = gib(1),
                                   .at = {},
                                   .threshold = 0});
  }
  for (auto _ : state) benchmark::DoNotOptimize(step(config, {}, observation));
}
BENCHMARK(quick_path_watched)->RangeMultiplier(10)->Range(10, 10'000);

// Met: rank all and choose.
void full_path(benchmark::State& state) {
  const Config config = kubelet_default();
  const Observation observation = node(state.range(0), mib(50));
  for (auto _ : state) {
    const Step now = step(config, {}, observation);
    if (now.decision.action != Action::kill) state.SkipWithError("no workload was chosen");
    benchmark::DoNotOptimize(now);
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(full_path)->RangeMultiplier(10)->Range(10, 10'000)->Complexity(benchmark::oNLogN);

}  // namespace
}  // namespace forestall::policy
