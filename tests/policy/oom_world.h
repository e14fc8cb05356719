// SPDX-License-Identifier: Apache-2.0
// Literal scenes for the OOM killer: processes, cgroups and domains in one expression each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/oom.h"
#include "tests/policy/world.h"

namespace forestall::policy {

// A killable process: its place in the walk follows its pid.
inline ProcessSample process(pid_t pid, Pages anon, std::string cgroup = "/") {
  ProcessSample sample;
  sample.id = {pid, static_cast<std::uint64_t>(pid) * 100};
  sample.cgroup = id_of(cgroup);
  sample.memory_id = static_cast<std::uint64_t>(pid) << 12;
  sample.memory.anon = anon;
  sample.order = static_cast<std::uint64_t>(pid);
  return sample;
}

inline ProcessSample adjusted(ProcessSample sample, std::int32_t adjustment) {
  sample.oom_score_adj = adjustment;
  if (adjustment == kOomScoreAdjMin && sample.unkillable == Unkillable::none) {
    sample.unkillable = Unkillable::adjusted;
  }
  return sample;
}

inline ProcessSample unkillable(ProcessSample sample, Unkillable reason) {
  sample.unkillable = reason;
  if (reason == Unkillable::adjusted) sample.oom_score_adj = kOomScoreAdjMin;
  if (reason == Unkillable::no_memory || reason == Unkillable::kernel_thread) {
    sample.memory = {};
    sample.memory_id = 0;
  }
  return sample;
}

inline ProcessSample dying(ProcessSample sample) {
  sample.dying = true;
  return sample;
}

// An OOM killer chose it before.
inline ProcessSample chosen_before(ProcessSample sample, bool reaped) {
  sample.oom_victim = true;
  sample.oom_victim_reaped = reaped;
  if (reaped) sample.unkillable = Unkillable::reaped;
  return sample;
}

inline ProcessSample sharing(ProcessSample sample, const ProcessSample& with) {
  sample.memory_id = with.memory_id;
  sample.memory = with.memory;
  return sample;
}

// Cgroups by path, in the order of the walk; a final `*` sets memory.oom.group.
inline std::vector<OomCgroup> cgroups(const std::vector<std::string>& paths) {
  std::vector<OomCgroup> made;
  for (std::string path : paths) {
    OomCgroup cgroup;
    cgroup.oom_group = path.back() == '*';
    if (cgroup.oom_group) path.pop_back();
    cgroup.id = id_of(path);
    for (std::size_t i = 0; i < made.size(); ++i) {
      const std::string& above = made[i].path;
      if (path.starts_with(above == "/" ? above : above + "/")) cgroup.parent = i;
    }
    cgroup.path = std::move(path);
    made.push_back(std::move(cgroup));
  }
  return made;
}

inline OomScene node_scene(std::vector<ProcessSample> processes,
                           const std::vector<std::string>& paths = {"/"}) {
  OomScene scene;
  scene.domain.total_pages = 1'000'000;
  scene.cgroups = cgroups(paths);
  scene.processes = std::move(processes);
  return scene;
}

// The first of `paths` is at its limit.
inline OomScene memcg_scene(std::vector<ProcessSample> processes,
                            const std::vector<std::string>& paths) {
  OomScene scene = node_scene(std::move(processes), paths);
  scene.domain.constraint = Constraint::memcg;
  scene.domain.cgroup = scene.cgroups.front().id;
  scene.domain.path = scene.cgroups.front().path;
  return scene;
}

}  // namespace forestall::policy
