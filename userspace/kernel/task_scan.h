// SPDX-License-Identifier: Apache-2.0
// The iterator program that walks all tasks in the kernel and returns the facts that the OOM killer
// uses (bpf/tasks.bpf.c). A separate BPF object, loaded only for a scan.
//
// load() determines once how the running kernel counts memory for its scores
// (kernel/rss_calibration.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "bpf/abi/task.h"
#include "kernel/kernel_types.h"
#include "kernel/rss_calibration.h"
#include "model/ids.h"
#include "model/process.h"

namespace forestall::kernel {

struct TaskQuery {
  std::optional<CgroupId> subtree;  // this memory cgroup and below; nothing: the node
  Pages total_pages = 0;            // total for which abi_task::points are computed
  // Sums over all CPUs cost a cache miss per CPU and process. Without this they are made only if
  // the kernel scores by them; otherwise ABI_TASK_NO_SUM is set.
  bool both_ways = false;
};

// Thread rule: one thread at a time.
class TaskScan {
 public:
  // Loads the program and calibrates. EPERM: refused, or not in the host's pid namespace. Other
  // errors (ENOENT, …): this kernel lacks something that the program needs.
  static Result<std::unique_ptr<TaskScan>> load(const KernelTypes& types = KernelTypes());
  ~TaskScan();

  // Visits each process of the query once, in ascending order of pid. A record is valid until its
  // visit returns. Allocates nothing. Skips kernel threads and processes outside our pid namespace.
  // A process that starts or exits meanwhile may be visited or not.
  Result<void> visit(const TaskQuery& query, const std::function<void(const abi_task&)>& visit);

  // The processes of one memory cgroup, without its descendants, in the order in which the kernel
  // walks them (css_task_iter: css_sets, then each one's list of tasks); inode 0: those of the node
  // (for_each_process). Empty: the cgroup has no process. EAGAIN: it changed during every try.
  // EOVERFLOW: more than ABI_WALK_MAX.
  Result<std::vector<pid_t>> walk_order(CgroupId cgroup);

  [[nodiscard]] const Calibration& calibration() const;

 private:
  class Loaded;
  explicit TaskScan(std::unique_ptr<Loaded> loaded);
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace forestall::kernel
