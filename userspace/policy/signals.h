// SPDX-License-Identifier: Apache-2.0
// What each signal says: capacity and available, from the samples of one observation.
//
// memory.available:            MemTotal - working set of the node   (kubelet.md §2.1)
// allocatableMemory.available: limit - working set of the pods cgroup           (§2.2)
// cgroupMemory.available:      limit - working set of one watched cgroup    (our own)
//
// with working set = usage - inactive_file, floored at 0. So active page cache counts as used, as
// in kubelet, and available can be negative. A signal that lacks one of its readings, or whose
// cgroup is unlimited, is unknown: no threshold on it is met, and none is taken to be over.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "model/config.h"
#include "model/observation.h"
#include "model/workload.h"
#include "policy/saturating.h"

namespace forestall::policy {

// The memory of one subject at one time.
struct Level {
  Bytes capacity;
  Bytes usage;
  Bytes inactive_file;

  [[nodiscard]] Bytes used() const { return working_set(usage, inactive_file); }
  [[nodiscard]] Bytes available() const { return subtract(capacity, used()); }
};

// Whose memory is watched: the node or one cgroup.
struct Subject {
  CgroupId cgroup;              // inode 0: the node
  std::string_view path = "/";  // in the memory hierarchy; "/" for the node

  [[nodiscard]] bool is_node() const { return cgroup == CgroupId{}; }
  [[nodiscard]] std::string_view name() const { return is_node() ? "node" : path; }
};

[[nodiscard]] std::optional<Level> node_level(const NodeSample& node);
// `declared` stands in for the limit of the cgroup (Threshold::capacity).
[[nodiscard]] std::optional<Level> cgroup_level(const CgroupSample& cgroup,
                                                std::optional<Bytes> declared);

// Calls visit(threshold index, subject, level or nothing) for every threshold and each subject
// that is there for it: kubelet's signals in configuration order, then the watched cgroups in
// the order of the observation. Views into `observation`.
template <typename Visit>
void for_each_subject(const Config& config, const Observation& observation, Visit visit) {
  for (std::size_t i = 0; i < config.thresholds.size(); ++i) {
    const Signal signal = config.thresholds[i].signal;
    if (signal == Signal::memory_available) {
      visit(i, Subject{}, node_level(observation.node));
    } else if (signal == Signal::allocatable_memory_available && observation.pods) {
      const CgroupSample& pods = *observation.pods;
      visit(i, Subject{pods.id, pods.path}, cgroup_level(pods, std::nullopt));
    }
  }
  for (const CgroupSample& watched : observation.watched) {
    // An observation made under another configuration may name a threshold that is gone.
    if (watched.threshold >= config.thresholds.size()) continue;
    const Threshold& threshold = config.thresholds[watched.threshold];
    if (threshold.signal != Signal::cgroup_memory_available) continue;
    visit(watched.threshold, Subject{watched.id, watched.path},
          cgroup_level(watched, threshold.capacity));
  }
}

}  // namespace forestall::policy
