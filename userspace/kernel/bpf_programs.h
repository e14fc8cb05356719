// SPDX-License-Identifier: Apache-2.0
// The BPF object: opened, cut down to what this kernel takes, loaded, attached, read.
//
// Probe -> plan -> apply: BTF says what may exist, trying says what is permitted, and each
// feature's answer is kept for `doctor`. A feature that cannot be had never takes another with it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "bpf/abi/event.h"
#include "bpf/abi/stall.h"
#include "bpf/abi/watch.h"
#include "model/feature.h"
#include "model/ids.h"

namespace forestall::kernel {

// One line armed in the kernel. Usage is counted in the kernel's own counter of that subject.
struct BpfWatch {
  int cgroup_fd = -1;  // directory in the memory hierarchy; -1: the node
  Bytes usage_line;    // fire once when usage >= this
  Bytes capacity;      // for the fill-rate arithmetic of the sampling interval
};

class BpfPrograms {
 public:
  // Never fails as a whole for lack of permission: reports() then says everything is refused.
  // An error is a defect or a lack of memory.
  static Result<std::unique_ptr<BpfPrograms>> load(const FeatureSet& disabled);
  ~BpfPrograms();

  // One per BPF feature, in Feature order.
  [[nodiscard]] const std::vector<FeatureReport>& reports() const;
  [[nodiscard]] bool in_use(Feature feature) const;

  // Replaces all watches. Each is armed to fire once; a subject that cannot be resolved is
  // reported by index. The timer starts with the first call.
  [[nodiscard]] Result<std::vector<std::size_t>> watch(std::span<const BpfWatch> watches);

  // The kernel-side usage of the node right now by the timer's own formula (file + anon pages and
  // inactive_file apart), so that the caller can express a line in the kernel's counter.
  [[nodiscard]] Result<abi_node_usage> node_usage() const;

  // Ring buffer: pollable descriptor, and a drain that never blocks.
  [[nodiscard]] int ring_fd() const;
  void drain(const std::function<void(const abi_event&)>& visit);

  // Counters, summed over CPUs: events emitted and dropped, helper failures, by kind.
  [[nodiscard]] Result<abi_counters> counters() const;
  // Stall and reclaim sums of one cgroup (by id), and of the node (inode 0), open stalls
  // included up to `now`. Zeroes for a cgroup that never stalled.
  [[nodiscard]] Result<abi_stall> stall(CgroupId cgroup) const;

 private:
  class Loaded;
  explicit BpfPrograms(std::unique_ptr<Loaded> loaded);
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace forestall::kernel
