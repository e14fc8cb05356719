// SPDX-License-Identifier: Apache-2.0
// Determines by which of two ways of counting the running kernel computes OOM scores.
//
// oom_badness() used percpu_counter's approximate value until 5898aa8f9a0b ("mm: fix OOM killer
// inaccuracy on large many-core systems"), which sums the CPUs' parts and may be in any stable
// kernel. So the kernel's own result decides: /proc/PID/oom_score shows the points, coarsely,
//
//   score = (1000 + points * 1000 / total) * 2 / 3,  points = pages + adj * (total / 1000)
//
// with RAM + swap as `total`, about 36 MiB per step on a host with 24 GiB. The position of a step
// depends on adj, by the remainders of the divisions: for any size of a process, one of the 1000
// adjustments has a step within a few pages of it. A child process gets that adjustment and grows
// exactly to the step by one way of counting. The other way lags by up to a batch (32 pages and
// more) and predicts a score of one less. The file shows which one is right.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "bpf/abi/task.h"
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
  bool proven = false;   // false: no trial distinguished the two; `counting` is the safer guess
  std::string evidence;  // the trial and the kernel's result
};

// Pages (file + anon + shmem + swap + page tables) of a record by one way of counting.
[[nodiscard]] Pages pages_of(const abi_task& task, RssCounting counting);

// The value of /proc/PID/oom_score for these points.
// REQUIRES: total_pages >= 1.
[[nodiscard]] std::int64_t score_of(Pages points, Pages total_pages);

// An adjustment, and the number of pages at which the score of a process with it rises.
struct ScoreStep {
  std::int32_t oom_score_adj = 0;
  Pages pages = 0;
};
// The nearest step of at least `from` pages with an adjustment within [least_adj, 999]; nothing:
// there is none (total_pages below 1000).
[[nodiscard]] std::optional<ScoreStep> next_score_step(Pages from, std::int32_t least_adj,
                                                       Pages total_pages);

// Reads the current counters of one process, counted both ways.
using ReadTask = std::function<Result<abi_task>(pid_t)>;

// Forks a child and makes it grow: about ten reads, tens of milliseconds, and less than 8 MiB of
// memory besides page tables. Never fails: after an error or after `patience` the calibration is
// not proven, and its evidence has the reason.
[[nodiscard]] Calibration calibrate_rss(const ReadTask& read, Duration patience);

}  // namespace forestall::kernel
