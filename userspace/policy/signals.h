// SPDX-License-Identifier: Apache-2.0
// What each signal says: capacity, available and when that was read, from the samples of one
// observation (kubelet.md §2, pkg/kubelet/eviction/helpers.go makeSignalObservations).
//
// memory.available:            MemTotal - working set of the node
// allocatableMemory.available: limit - working set of the pods cgroup
// *fs.available, *.inodesFree: free and total bytes or inodes of that filesystem
// pid.available:               min(pid_max, threads-max) - tasks running
// cgroupMemory.available:      limit - working set of one watched cgroup (our own)
// memory.untilOom:             MemAvailable + SwapFree, of MemTotal + SwapTotal (our own)
// swap.available:              SwapFree, of SwapTotal; unknown if there is no swap (our own)
//
// with working set = usage - inactive_file, floored at 0. So active page cache counts as used, as
// in kubelet, and available can be negative. A signal that lacks one of its readings, or whose
// cgroup is unlimited, is unknown: no threshold on it is met, and none is taken to be over.
//
// memory.untilOom is the kernel's estimate of what can be had without swapping (mm/show_mem.c
// si_mem_available: free pages less the watermarks and reserves, plus the part of page cache and
// slab that can be dropped) and the swap that is left. It sees what a working set does not, the
// kernel's own memory and the watermarks: on a 2 GiB node the kernel's OOM killer ran while
// memory.available was still 80 to 100 MiB, and with swap on compressed RAM it never falls that
// far. Pages in such swap still occupy some RAM, so there the estimate is a bound from above.
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

// What a signal says, in its own unit: bytes, inodes or tasks.
struct SignalState {
  std::int64_t capacity = 0;
  std::int64_t available = 0;
  MonotonicTime at;            // the observation's time where the sample has none
  std::optional<Level> level;  // of the memory signals
};

// Whose amount is watched: the node's or one cgroup's.
struct Subject {
  CgroupId cgroup;              // inode 0: the node
  std::string_view path = "/";  // in the memory hierarchy; "/" for the node

  [[nodiscard]] bool is_node() const { return cgroup == CgroupId{}; }
  [[nodiscard]] std::string_view name() const { return is_node() ? "node" : path; }
};

[[nodiscard]] std::optional<Level> node_level(const NodeSample& node);
// Of memory.untilOom: what is not available counts as used, and nothing of that as inactive.
[[nodiscard]] std::optional<Level> until_oom_level(const NodeSample& node);
// `declared` stands in for the limit of the cgroup (Threshold::capacity).
[[nodiscard]] std::optional<Level> cgroup_level(const CgroupSample& cgroup,
                                                std::optional<Bytes> declared);

// The level of a memory signal of the node.
[[nodiscard]] std::optional<Level> level_of(Signal signal, const NodeSample& node);

// A signal of the node or of the pods cgroup; nothing for one of watched cgroups.
[[nodiscard]] std::optional<SignalState> signal_state(Signal signal,
                                                      const Observation& observation);
// A signal whose subject is the node; nothing as well for those about a cgroup.
[[nodiscard]] std::optional<SignalState> node_state(Signal signal, const Observation& observation);
[[nodiscard]] std::optional<SignalState> cgroup_state(const CgroupSample& cgroup,
                                                      std::optional<Bytes> declared,
                                                      const Observation& observation);

// Of a workload that is held against its own limit. Its inactive file pages are read near the limit
// only; before that it counts as if it had none, which puts it no farther than it is. Nothing if
// the threshold would be met by that.
[[nodiscard]] std::optional<SignalState> own_limit_state(const CgroupSample& cgroup,
                                                         const Threshold& threshold,
                                                         const Observation& observation);

// Calls visit(index, threshold, subject, reading or nothing) for every threshold in force and each
// subject that is there for it: kubelet's signals in configuration order, then the derived ones,
// then the watched cgroups in the order of the observation. Configured thresholds on containerfs
// are left out: what is derived takes their place. Views into `observation`.
template <typename Visit>
void for_each_subject(const Config& config, const std::vector<DerivedThreshold>* derived,
                      bool only_replacements, const Observation& observation, Visit visit) {
  for (std::size_t i = 0; i < config.thresholds.size(); ++i) {
    const Threshold& threshold = config.thresholds[i];
    const SignalRow& row = row_of(threshold.signal);
    if (row.filesystem == Filesystem::containerfs) continue;
    if (row.subject == SubjectKind::node) {
      visit(i, threshold, Subject{}, node_state(row.signal, observation));
    } else if (row.subject == SubjectKind::pods_cgroup && observation.pods) {
      const CgroupSample& pods = *observation.pods;
      visit(i, threshold, Subject{pods.id, pods.path},
            cgroup_state(pods, std::nullopt, observation));
    }
  }
  if (derived != nullptr) {
    for (const DerivedThreshold& one : *derived) {
      if (only_replacements && !one.replaces) continue;
      visit(one.index, one.threshold, Subject{}, node_state(one.threshold.signal, observation));
    }
  }
  for (const CgroupSample& watched : observation.watched) {
    // An observation made under another configuration may name a threshold that is gone.
    if (watched.threshold >= config.thresholds.size()) continue;
    const Threshold& threshold = config.thresholds[watched.threshold];
    if (!is_of_watched_cgroup(threshold.signal)) continue;
    visit(watched.threshold, threshold, Subject{watched.id, watched.path},
          threshold.own_limits_of ? own_limit_state(watched, threshold, observation)
                                  : cgroup_state(watched, threshold.capacity, observation));
  }
}

}  // namespace forestall::policy
