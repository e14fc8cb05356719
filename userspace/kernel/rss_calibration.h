// SPDX-License-Identifier: Apache-2.0
// By which of the two ways of counting does the running kernel score?
//
// oom_badness() took percpu_counter's approximate value until 5898aa8f9a0b ("mm: fix OOM killer
// inaccuracy on large many-core systems"), which sums the CPUs' parts and may have reached any
// stable kernel. So the kernel is asked: /proc/PID/oom_score shows the points, coarsely,
//
//   score = (1000 + points * 1000 / total) * 2 / 3,  points = pages + adj * (total / 1000)
//
// with RAM + swap as `total`, which is some 36 MiB a step on a host of 24 GiB. But where a step
// lies depends on adj, by the remainders of the divisions: one of the 1000 adjustments has its step
// within a few pages of whatever a process has. A child of ours is given that adjustment and grows
// to exactly the step by one way of counting. The other way lags behind by up to a batch (32 pages
// and more) and predicts one less: the file says which is right.
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
  bool proven = false;   // false: nothing told the two apart; `counting` is the safer guess
  std::string evidence;  // what was tried and what the kernel said
};

// Pages (file + anon + shmem + swap + page tables) of a record by one way of counting.
[[nodiscard]] Pages pages_of(const abi_task& task, RssCounting counting);

// What /proc/PID/oom_score shows for that many points.
// REQUIRES: total_pages >= 1.
[[nodiscard]] std::int64_t score_of(Pages points, Pages total_pages);

// An adjustment and the pages from which on a process with it shows a higher score.
struct ScoreStep {
  std::int32_t oom_score_adj = 0;
  Pages pages = 0;
};
// The nearest step that is at least `from` pages and whose adjustment lies within
// [least_adj, 999]; nothing when there is none (total_pages below 1000).
[[nodiscard]] std::optional<ScoreStep> next_score_step(Pages from, std::int32_t least_adj,
                                                       Pages total_pages);

// Reads one process afresh, both ways counted.
using ReadTask = std::function<Result<abi_task>(pid_t)>;

// Forks a child and makes it grow: some ten looks, tens of milliseconds, and less than 8 MiB of
// memory besides page tables. Gives up after `patience` and says so. Never fails: what goes wrong
// becomes the evidence of a calibration that proves nothing.
[[nodiscard]] Calibration calibrate_rss(const ReadTask& read, Duration patience);

}  // namespace forestall::kernel
