// SPDX-License-Identifier: Apache-2.0
// The iterator program that walks all tasks in the kernel and hands out what its OOM killer looks
// at (bpf/tasks.bpf.c). A second BPF object, loaded only by who scans.
//
// Which way of counting the running kernel scores by is found out once by load(), against its own
// figure: a child of ours grows page by page until the two ways predict different
// /proc/PID/oom_score, and the kernel says which is right (mm/oom_kill.c oom_badness: approximate
// counters up to 6.18, per-CPU sums from 7.2 on, and perhaps in stable updates of older ones).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "bpf/abi/task.h"
#include "model/feature.h"
#include "model/ids.h"
#include "model/process.h"

namespace forestall::kernel {

// Which of abi_task's counters the kernel scores by.
enum class RssCounting : std::uint8_t {
  counted,  // percpu_counter_read_positive, or plain atomics
  summed,   // percpu_counter_sum_positive
};
[[nodiscard]] std::string_view to_string(RssCounting counting);

struct Calibration {
  RssCounting counting = RssCounting::counted;
  bool proven = false;   // false: nothing told the two apart; `counting` is the safer guess
  std::string evidence;  // what was tried and what the kernel said
};

struct TaskQuery {
  std::optional<CgroupId> subtree;  // this memory cgroup and below; nothing: the node
  Pages total_pages = 0;            // what abi_task::points are computed for
};

// Thread rule: one thread at a time.
class TaskScan {
 public:
  // Loads the program and calibrates. An error says why it cannot be used (EPERM, ENOENT, …).
  static Result<std::unique_ptr<TaskScan>> load();
  ~TaskScan();

  // Visits every process asked for, in place: a record lives until its visit returns. Allocates
  // nothing. Kernel threads are left out.
  Result<void> visit(const TaskQuery& query, const std::function<void(const abi_task&)>& visit);

  // The thread group leaders of one memory cgroup in the order in which the kernel walks them
  // (css_task_iter: css_sets, then each one's list of tasks).
  Result<std::vector<pid_t>> walk_order(CgroupId cgroup);

  [[nodiscard]] const Calibration& calibration() const;

 private:
  class Loaded;
  explicit TaskScan(std::unique_ptr<Loaded> loaded);
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace forestall::kernel
