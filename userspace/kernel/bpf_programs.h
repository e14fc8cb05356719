// SPDX-License-Identifier: Apache-2.0
// The BPF object: opened, cut down to what this kernel takes, loaded, attached, read.
//
// Probe -> plan -> apply: BTF says what may exist, trying says what is permitted, and each
// feature's answer is kept for `doctor`. A feature that cannot be had never takes another with it.
//
// Nothing is pinned: programs, maps and the timer live on this process' descriptors and go with it,
// however it ends.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "bpf/abi/counters.h"
#include "bpf/abi/event.h"
#include "bpf/abi/oom_kill.h"
#include "bpf/abi/stall.h"
#include "bpf/abi/watch.h"
#include "model/feature.h"
#include "model/ids.h"

namespace forestall::kernel {

// One line armed in the kernel, in the kernel's own counter of its subject: memory.usage of a
// cgroup; file + anon - inactive_file of the node (abi_node_working_set).
struct BpfWatch {
  CgroupId cgroup;     // inode 0: the node
  int cgroup_fd = -1;  // its directory in the memory hierarchy, not owned; unused for the node
  Bytes usage_line;    // fire once when usage >= this
};

// Thread rule: one thread at a time. Nothing here waits.
class BpfPrograms {
 public:
  // Never fails as a whole for lack of permission: reports() then says everything is refused.
  // An error is a defect or a lack of memory.
  static Result<std::unique_ptr<BpfPrograms>> load(const FeatureSet& disabled);
  ~BpfPrograms();

  // One per BPF feature, in Feature order.
  [[nodiscard]] const std::vector<FeatureReport>& reports() const;
  [[nodiscard]] bool in_use(Feature feature) const;

  // Replaces all watches and arms each to fire once. One that is still armed at the same line is
  // left alone, so that calling this after every look costs a comparison per watch; one that has
  // fired is armed again. Returns the indices of the subjects that could not be resolved (removed,
  // without the memory controller, beyond ABI_WATCH_SLOTS, or no descriptor or memory to look them
  // up with); those are tried again at the next call. An error means that the timer could not be
  // started: the lines stay armed, and the next call tries it again.
  [[nodiscard]] Result<std::vector<std::size_t>> watch(std::span<const BpfWatch> watches);

  // The kernel's counters of the node right now: what slot 0's line is compared with.
  [[nodiscard]] Result<abi_node_usage> node_usage() const;

  // Ring buffer: pollable descriptor (-1 when `bpf` is not in use), and a drain that never blocks.
  // The event lives until the visit returns. One of kind oom_kill is the head of a longer record,
  // which abi_oom_kill_of() (bpf/abi/oom_kill.h) gives.
  [[nodiscard]] int ring_fd() const;
  void drain(const std::function<void(const abi_event&)>& visit);

  // Counters, summed over CPUs: events emitted and dropped, helper failures, by kind.
  [[nodiscard]] Result<abi_counters> counters() const;
  // Stall and reclaim sums of one cgroup and its descendants (by id), or of the node (inode 0),
  // stalls that are still open included. Zeroes for a cgroup that never stalled.
  [[nodiscard]] Result<abi_stall> stall(CgroupId cgroup) const;

 private:
  class Loaded;
  explicit BpfPrograms(std::unique_ptr<Loaded> loaded);
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace forestall::kernel
