// SPDX-License-Identifier: Apache-2.0
// Computes each signal's capacity, available amount and read time from the samples of one
// observation (pkg/kubelet/eviction/helpers.go makeSignalObservations).
//
// memory.available:            MemTotal - working set of the node
// allocatableMemory.available: limit - working set of the pods cgroup
// *fs.available, *.inodesFree: free and total bytes or inodes of that filesystem
// pid.available:               min(pid_max, threads-max) - tasks running
// cgroupMemory.available:      limit - working set of one watched cgroup (Forestall's own)
// memory.untilOom:             MemAvailable + SwapFree, of MemTotal + SwapTotal (Forestall's own)
// swap.available:              SwapFree, of SwapTotal; unknown without swap (Forestall's own)
//
// Working set = usage - inactive_file, floored at 0. As in kubelet, active page cache counts as
// used, and available can be negative. A signal is unknown if one of its readings is missing or its
// cgroup is unlimited. A threshold on an unknown signal keeps its state: met or not met.
//
// memory.untilOom adds free swap to the kernel's estimate of what can be allocated without swapping
// (mm/show_mem.c si_mem_available: free pages less watermarks and reserves, plus the page cache and
// slab that can be dropped). Unlike a working set, it covers the kernel's own memory and the
// watermarks. Measured on a 2 GiB node: the kernel's OOM killer ran while memory.available was
// still 80 to 100 MiB; with swap on compressed RAM, memory.available never falls that far. Pages in
// such swap still occupy some RAM, so there the estimate is an upper bound. Free pages on per-CPU
// lists are not counted (mm/page_alloc.c nr_pcp_high(): since Linux 6.7 up to an eighth of a zone,
// less below the high watermark; measured on a 2 GiB node with no other memory left: 40 to 72 MiB).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
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
struct MemoryLevel {
  Bytes capacity;
  Bytes usage;
  Bytes inactive_file;

  [[nodiscard]] Bytes used() const { return working_set(usage, inactive_file); }
  [[nodiscard]] Bytes available() const { return subtract(capacity, used()); }
};

// The amounts of a signal, in its unit: bytes, inodes or tasks.
struct SignalState {
  std::int64_t capacity = 0;
  std::int64_t available = 0;
  MonotonicTime at;                  // the observation's time if the sample has none
  std::optional<MemoryLevel> level;  // only for signals with usage lines
};

// The object whose amount is watched: the node or one cgroup.
struct Subject {
  CgroupId cgroup;              // inode 0: the node
  std::string_view path = "/";  // in the memory hierarchy; "/" for the node

  [[nodiscard]] bool is_node() const { return cgroup == CgroupId{}; }
  [[nodiscard]] std::string_view name() const { return is_node() ? "node" : path; }
};

[[nodiscard]] std::optional<MemoryLevel> node_level(const NodeSample& node);
// For memory.untilOom: what is not available counts as used, none of it as inactive.
[[nodiscard]] std::optional<MemoryLevel> until_oom_level(const NodeSample& node);
// `declared` replaces the limit of the cgroup (Threshold::capacity).
[[nodiscard]] std::optional<MemoryLevel> cgroup_level(const CgroupSample& cgroup,
                                                      std::optional<Bytes> declared);

// The level of a memory signal of the node.
[[nodiscard]] std::optional<MemoryLevel> level_of(Signal signal, const NodeSample& node);

// A signal of the node or of the pods cgroup; nothing for one of watched cgroups.
[[nodiscard]] std::optional<SignalState> signal_state(Signal signal,
                                                      const Observation& observation);
// A signal whose subject is the node; nothing for signals of cgroups.
[[nodiscard]] std::optional<SignalState> node_state(Signal signal, const Observation& observation);
[[nodiscard]] std::optional<SignalState> cgroup_state(const CgroupSample& cgroup,
                                                      std::optional<Bytes> declared,
                                                      const Observation& observation);

// A workload compared with its own limit. The observer reads its inactive file pages only near the
// limit. Without them, the state assumes there are none, which cannot overestimate what is
// available. If the threshold would be met under that assumption, the result is nothing.
[[nodiscard]] std::optional<SignalState> own_limit_state(const CgroupSample& cgroup,
                                                         const Threshold& threshold,
                                                         const Observation& observation);

// The derived thresholds in force, or those of them that replace a configured one.
struct DerivedInForce {
  std::span<const DerivedThreshold> thresholds = {};
  bool only_replacements = false;
};

// Calls visit(index, threshold, subject, SignalState or nothing) for every threshold in force and
// each subject observed for it: thresholds on the node and the pods cgroup in configuration order,
// then the derived ones, then the watched cgroups in the order of the observation. Derived
// thresholds replace the configured ones on containerfs. Subjects are views into `observation`.
template <typename Visit>
void for_each_subject(const Config& config, const Observation& observation, Visit visit,
                      const DerivedInForce& derived = {}) {
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
  for (const DerivedThreshold& one : derived.thresholds) {
    if (derived.only_replacements && !one.replaces) continue;
    visit(one.index, one.threshold, Subject{}, node_state(one.threshold.signal, observation));
  }
  for (const CgroupSample& watched : observation.watched) {
    // An observation made under another configuration may name a threshold that is removed.
    if (watched.threshold >= config.thresholds.size()) continue;
    const Threshold& threshold = config.thresholds[watched.threshold];
    if (!is_of_watched_cgroup(threshold.signal)) continue;
    visit(watched.threshold, threshold, Subject{watched.id, watched.path},
          threshold.own_limits_of ? own_limit_state(watched, threshold, observation)
                                  : cgroup_state(watched, threshold.capacity, observation));
  }
}

}  // namespace forestall::policy
