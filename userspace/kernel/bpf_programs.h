// SPDX-License-Identifier: Apache-2.0
// The BPF object of the agent's wake sources: loads it with the features that this kernel permits,
// arms watches, drains events and reads counters.
//
// BTF shows what exists and a trial shows what is permitted; each feature's result is kept for
// `doctor`. A missing feature does not disable another one.
//
// Nothing is pinned: programs, maps and the timer belong to this process' descriptors and end with
// it.
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
#include "kernel/kernel_types.h"
#include "model/bpf_counter.h"
#include "model/feature.h"
#include "model/ids.h"

namespace forestall::kernel {

// In place of a cgroup: the node's memory outside of MemAvailable (abi_node_taken).
inline constexpr CgroupId kNodeTaken{ABI_TAKEN_ID};

// That memory, read by the programs and from /proc/meminfo right after another.
struct NodeTaken {
  Bytes counter;    // what a line on kNodeTaken is compared with
  Bytes available;  // MemAvailable

  // How far the two are from each other, either way.
  [[nodiscard]] Bytes apart() const {
    const Bytes by_file = Bytes{static_cast<std::int64_t>(ABI_TAKEN_ORIGIN)} - available;
    return counter < by_file ? by_file - counter : counter - by_file;
  }
};

// One line to arm in the kernel, compared with the kernel's own counter of the subject:
// memory.usage of a cgroup; file + anon - inactive_file of the node (abi_node_working_set).
struct BpfWatch {
  CgroupId cgroup;     // inode 0: the node; or kNodeTaken
  int cgroup_fd = -1;  // its directory in the memory hierarchy, not owned; unused for the node
  Bytes usage_line;    // fire once when usage >= this
};

// Thread rule: one thread at a time. No call waits.
class BpfPrograms {
 public:
  // Lack of permission is not an error: every feature in reports() is then refused. An error is a
  // defect or a lack of memory.
  static Result<std::unique_ptr<BpfPrograms>> load(const FeatureSet& disabled,
                                                   const KernelTypes& types = KernelTypes());
  ~BpfPrograms();

  // One per BPF feature, in Feature order.
  [[nodiscard]] const std::vector<FeatureReport>& reports() const;
  [[nodiscard]] bool in_use(Feature feature) const;

  // Replaces all watches and arms each to fire once. A watch that is still armed at the same line
  // is unchanged, which costs one comparison; a watch that has fired is armed again. Returns the
  // indices of the subjects that could not be resolved: removed, without the memory controller,
  // beyond ABI_WATCH_SLOTS, or for lack of descriptors or memory. The next call retries them. An
  // error: the timer could not be started. The lines stay armed, and the next call retries.
  [[nodiscard]] Result<std::vector<std::size_t>> watch(std::span<const BpfWatch> watches);

  // Whether the timer can watch kNodeTaken, and finds the MemAvailable that /proc/meminfo shows.
  [[nodiscard]] bool shows_available() const;

  // The timer's last readings of a watched subject (inode 0: the node), each with begin_ns 0 if
  // there is none. No system call.
  [[nodiscard]] abi_readings last_readings(CgroupId cgroup) const;

  // REQUIRES: shows_available().
  [[nodiscard]] Result<NodeTaken> node_taken();
  // The kernel's current counters of the node, which slot 0's line is compared with.
  [[nodiscard]] Result<abi_node_usage> node_usage() const;

  // Ring buffer: a pollable descriptor (-1 if `bpf` is not in use), and a drain that never blocks.
  // An event is valid until the visit returns. An event of kind oom_kill is the head of a longer
  // record; see abi_oom_kill_of() in bpf/abi/oom_kill.h.
  [[nodiscard]] int ring_fd() const;
  void drain(const std::function<void(const abi_event&)>& visit);

  // Counters, summed over CPUs.
  [[nodiscard]] Result<abi_counters> counters() const;
  // All of counters(), by name. Empty when `bpf` is not in use.
  [[nodiscard]] Result<std::vector<BpfCounter>> counters_by_name() const;
  // Stall and reclaim sums of one cgroup and its descendants (by id), or of the node (inode 0),
  // including stalls that are still open. Zeroes for a cgroup that never stalled.
  [[nodiscard]] Result<abi_stall> stall(CgroupId cgroup) const;

 private:
  class Loaded;
  explicit BpfPrograms(std::unique_ptr<Loaded> loaded);
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace forestall::kernel
