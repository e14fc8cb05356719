// SPDX-License-Identifier: Apache-2.0
// Small random worlds: configurations and observations with ties, nesting, and missing values.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/policy/dice.h"
#include "tests/policy/world.h"

namespace forestall::policy {

inline std::string any_path(Dice& dice) {
  static const std::vector<std::string> kTops{"/a", "/ab", "/kubepods", "/c"};
  std::string path = kTops[static_cast<std::size_t>(dice.below(4))];
  for (auto depth = dice.below(3); depth > 0; --depth) path += "/" + std::to_string(dice.below(4));
  return path;
}

inline WorkloadSample any_workload(Dice& dice, const std::string& path) {
  auto sample = workload(path, Bytes{dice.below(12)});
  if (dice.one_in(3)) sample.workload.priority = static_cast<std::int32_t>(dice.below(4) - 1);
  if (dice.one_in(20)) sample.workload.priority = 2'000'000'000;
  if (dice.one_in(2)) sample.workload.memory_request = Bytes{dice.below(8)};
  if (dice.one_in(6)) sample.workload.protection = static_cast<Protection>(dice.below(6));
  if (dice.one_in(6)) sample.usage.reset();
  if (dice.one_in(5)) sample.inactive_file = Bytes{dice.below(6)};
  if (dice.one_in(8)) sample.processes.reset();
  if (dice.one_in(8)) sample.processes = 0;
  sample.scored = !dice.one_in(20);
  if (!dice.one_in(3)) sample.growth = kib(512 * dice.below(8));
  if (sample.scored && !dice.one_in(6)) sample.badness = WorkloadBadness{{1, 1}, dice.below(6) - 2};
  return dice.one_in(3) ? as_pod(sample) : sample;
}

inline std::vector<WorkloadSample> any_workloads(Dice& dice) {
  std::vector<std::string> paths;
  for (auto count = dice.below(14); count > 0; --count) paths.push_back(any_path(dice));
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  std::vector<WorkloadSample> workloads;
  for (const std::string& path : paths) workloads.push_back(any_workload(dice, path));
  dice.shuffle(workloads);
  return workloads;
}

inline Config any_config(Dice& dice) {
  std::vector<Threshold> thresholds;
  for (auto count = 1 + dice.below(5); count > 0; --count) {
    Threshold threshold = hard(kSignals[static_cast<std::size_t>(dice.below(kSignals.size()))],
                               Bytes{dice.below(30)});
    if (dice.one_in(3)) threshold.limit = Limit::share(static_cast<float>(dice.below(11)) / 10);
    if (dice.one_in(2)) threshold.min_reclaim = Limit::bytes({dice.below(20)});
    if (dice.one_in(3)) threshold = soft(threshold, std::chrono::seconds(dice.below(30)));
    if (dice.one_in(6)) threshold.capacity = Bytes{dice.below(60)};
    thresholds.push_back(threshold);
  }
  Config config = policy::config(thresholds);
  config.pressure_transition = std::chrono::seconds(1 + dice.below(40));
  config.max_pod_grace_seconds = dice.below(20) - 2;
  config.compat.hard_at_once = !dice.one_in(4);
  config.compat.one_kill_until_cleanup = dice.one_in(4);
  config.compat.containerfs_from_second_pass = !dice.one_in(4);
  config.compat.reclaim_must_clear_all = !dice.one_in(4);
  config.ranking = static_cast<Ranking>(dice.below(3));
  return config;
}

inline std::optional<FilesystemSample> any_filesystem(Dice& dice) {
  if (dice.one_in(4)) return std::nullopt;
  return filesystem({60}, {dice.below(60)}, 60, dice.below(60));
}

inline std::vector<KillProgress> any_kills(Dice& dice, MonotonicTime now) {
  std::vector<KillProgress> kills;
  for (auto count = dice.below(4); count > 0; --count) {
    const auto state = static_cast<KillState>(dice.below(5));
    kills.push_back(kill(any_path(dice), {dice.below(12)}, state));
    kills.back().started = now - std::chrono::seconds(dice.below(40));
    if (state == KillState::terminating && !dice.one_in(5)) {
      kills.back().kill_at = now + std::chrono::milliseconds(dice.below(5000));
    }
  }
  return kills;
}

// Everything except memory.
inline void add_the_rest(Dice& dice, Observation& observation) {
  if (!dice.one_in(4)) {
    observation.filesystems.layout = static_cast<FilesystemLayout>(dice.below(3));
  }
  observation.filesystems.nodefs = any_filesystem(dice);
  observation.filesystems.imagefs = any_filesystem(dice);
  observation.filesystems.containerfs = any_filesystem(dice);
  observation.tasks = tasks(60, dice.below(60));
  observation.reclaim = static_cast<ReclaimState>(dice.below(4));
  observation.disk_usage_read = !dice.one_in(4);
}

inline Observation any_observation(Dice& dice, const Config& config) {
  Observation observation;
  observation.at = second(1000);
  observation.node = node({100}, {dice.below(110) - 10}, {dice.below(5)});
  add_the_rest(dice, observation);
  if (dice.one_in(8)) observation.node.usage.reset();
  if (dice.one_in(2)) observation.pods = cgroup("/kubepods", {60}, {dice.below(60)});
  for (auto count = dice.below(4); count > 0; --count) {
    const auto threshold =
        static_cast<std::size_t>(dice.below(static_cast<std::int64_t>(config.thresholds.size())));
    observation.watched.push_back(cgroup(any_path(dice), {40}, {dice.below(45) - 5}, threshold));
    if (dice.one_in(6)) observation.watched.back().limit.reset();
  }
  if (!dice.one_in(6)) observation.workloads = any_workloads(dice);
  observation.kills = any_kills(dice, observation.at);
  return observation;
}

}  // namespace forestall::policy
