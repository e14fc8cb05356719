// SPDX-License-Identifier: Apache-2.0
// The values of each signal: capacity, available and the time of the reading, from the samples of
// one observation (pkg/kubelet/eviction/helpers.go makeSignalObservations).
//
// memory.available:            MemTotal - working set of the node
// allocatableMemory.available: limit - working set of the pods cgroup
// *fs.available, *.inodesFree: free and total bytes or inodes of that filesystem
// pid.available:               min(pid_max, threads-max) - tasks running
// cgroupMemory.available:      limit - working set of one watched cgroup (Forestall only)
// memory.untilOom:             MemAvailable + SwapFree, of MemTotal + SwapTotal (Forestall only)
//
// with working set = usage - inactive_file, floored at 0. Active page cache therefore counts as
// used, as in kubelet, and available can be negative. A signal that lacks one of its readings, or
// has an unlimited cgroup, is unknown: no threshold on it becomes met or stops being met.
//
// memory.untilOom is the kernel's estimate of the memory available without swapping (mm/show_mem.c
// si_mem_available: free pages minus watermarks and reserves, plus the droppable part of page cache
// and slab) plus the free swap. Unlike a working set it includes the kernel's own memory and the
// watermarks: on a 2 GiB node the kernel's OOM killer ran at a memory.available of 80 to 100 MiB,
// and with swap on compressed RAM it never falls that far. Pages in such swap still occupy some
// RAM, so there the estimate is an upper bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "model/config.h"
#include "model/observation.h"
#include "model/workload.h"
#include "policy/saturating.h"
#include "policy/state.h"

namespace forestall::policy {

// The memory of one subject at one time.
struct Level {
  Bytes capacity;
  Bytes usage;
  Bytes inactive_file;

  [[nodiscard]] Bytes used() const { return working_set(usage, inactive_file); }
  [[nodiscard]] Bytes available() const { return subtract(capacity, used()); }
};

// The values of a signal, in its own unit: bytes, inodes or tasks.
struct Reading {
  std::int64_t capacity = 0;
  std::int64_t available = 0;
  MonotonicTime at;            // the observation's time if the sample has none
  std::optional<Level> level;  // of the memory signals
};

// The subject of a signal: the node or one cgroup.
struct Subject {
  CgroupId cgroup;              // inode 0: the node
  std::string_view path = "/";  // in the memory hierarchy; "/" for the node

  [[nodiscard]] bool is_node() const { return cgroup == CgroupId{}; }
  [[nodiscard]] std::string_view name() const { return is_node() ? "node" : path; }
};

[[nodiscard]] std::optional<Level> node_level(const NodeSample& node);
// Of memory.untilOom: what is not available counts as used, and nothing as inactive.
[[nodiscard]] std::optional<Level> until_oom_level(const NodeSample& node);
// `declared` replaces the limit of the cgroup (Threshold::capacity).
[[nodiscard]] std::optional<Level> cgroup_level(const CgroupSample& cgroup,
                                                std::optional<Bytes> declared);

// A signal of the node; nullopt also for signals of a cgroup.
[[nodiscard]] std::optional<Reading> node_reading(Signal signal, const Observation& observation);
[[nodiscard]] std::optional<Reading> cgroup_reading(const CgroupSample& cgroup,
                                                    std::optional<Bytes> declared,
                                                    const Observation& observation);

// Of a workload that is compared with its own limit. Its inactive file pages are read only near the
// limit; before that they count as 0, which gives a lower bound of the distance. Nullopt if the
// threshold would be met by that.
[[nodiscard]] std::optional<Reading> own_limit_reading(const CgroupSample& cgroup,
                                                       const Threshold& threshold,
                                                       const Observation& observation);

// Calls visit(index, threshold, subject, reading or nullopt) for every threshold in force and each
// of its subjects: kubelet's signals in configuration order, then the derived ones, then the
// watched cgroups in the order of the observation. Configured thresholds on containerfs are
// omitted: the derived ones replace them. Views into `observation`.
template <typename Visit>
void for_each_subject(const Config& config, const std::vector<DerivedThreshold>* derived,
                      bool only_replacements, const Observation& observation, Visit visit) {
  for (std::size_t i = 0; i < config.thresholds.size(); ++i) {
    const Threshold& threshold = config.thresholds[i];
    if (threshold.signal == Signal::cgroup_memory_available ||
        filesystem_of(threshold.signal) == Filesystem::containerfs) {
      continue;
    }
    if (threshold.signal != Signal::allocatable_memory_available) {
      visit(i, threshold, Subject{}, node_reading(threshold.signal, observation));
    } else if (observation.pods) {
      const CgroupSample& pods = *observation.pods;
      visit(i, threshold, Subject{pods.id, pods.path},
            cgroup_reading(pods, std::nullopt, observation));
    }
  }
  if (derived != nullptr) {
    for (const DerivedThreshold& one : *derived) {
      if (only_replacements && !one.replaces) continue;
      visit(one.index, one.threshold, Subject{}, node_reading(one.threshold.signal, observation));
    }
  }
  for (const CgroupSample& watched : observation.watched) {
    // An observation made under another configuration may name a removed threshold.
    if (watched.threshold >= config.thresholds.size()) continue;
    const Threshold& threshold = config.thresholds[watched.threshold];
    if (threshold.signal != Signal::cgroup_memory_available) continue;
    visit(watched.threshold, threshold, Subject{watched.id, watched.path},
          threshold.own_limits_of ? own_limit_reading(watched, threshold, observation)
                                  : cgroup_reading(watched, threshold.capacity, observation));
  }
}

}  // namespace forestall::policy
