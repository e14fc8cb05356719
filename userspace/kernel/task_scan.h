// SPDX-License-Identifier: Apache-2.0
// The iterator program that walks all tasks in the kernel and hands out what its OOM killer looks
// at (bpf/tasks.bpf.c). A second BPF object, loaded only by who scans.
//
// Which way of counting the running kernel scores by is found out once by load(), against its own
// figure (kernel/rss_calibration.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "bpf/abi/task.h"
#include "kernel/rss_calibration.h"
#include "model/ids.h"
#include "model/process.h"

namespace forestall::kernel {

struct TaskQuery {
  std::optional<CgroupId> subtree;  // this memory cgroup and below; nothing: the node
  Pages total_pages = 0;            // what abi_task::points are computed for
  // Sums over all CPUs cost a cache miss for each CPU and process, so without this they are made
  // only where the kernel scores by them; elsewhere ABI_TASK_NO_SUM is set.
  bool both_ways = false;
};

// Thread rule: one thread at a time.
class TaskScan {
 public:
  // Loads the program and calibrates. An error says why it cannot be used (EPERM, ENOENT, …); in
  // another pid namespace than the host's it cannot.
  static Result<std::unique_ptr<TaskScan>> load();
  ~TaskScan();

  // Visits every process asked for, once and in ascending order of pid, in place: a record lives
  // until its visit returns. Allocates nothing. Kernel threads are left out, and so is what lies
  // outside our pid namespace. A process that comes or goes meanwhile may be visited or not.
  Result<void> visit(const TaskQuery& query, const std::function<void(const abi_task&)>& visit);

  // The processes of one memory cgroup itself in the order in which the kernel walks them
  // (css_task_iter: css_sets, then each one's list of tasks), or with inode 0 those of the node
  // (for_each_process). Empty: nobody is in it. EAGAIN: it changed too fast to be told; EOVERFLOW:
  // more than ABI_WALK_MAX.
  Result<std::vector<pid_t>> walk_order(CgroupId cgroup);

  [[nodiscard]] const Calibration& calibration() const;

 private:
  class Loaded;
  explicit TaskScan(std::unique_ptr<Loaded> loaded);
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace forestall::kernel
