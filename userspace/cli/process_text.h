// SPDX-License-Identifier: Apache-2.0
// Processes and their scores as text for people and as messages for programs: what `score` and
// `rank --kernel` have in common. Pure functions of what was read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "forestall/v1/report.pb.h"
#include "kernel/task_scan.h"
#include "model/oom.h"

namespace forestall::cli {

// How the processes were read.
struct ProcessReading {
  std::string source;       // "bpf" or "proc"
  std::string bpf_failure;  // why it was not bpf; empty: it was, or it was turned off
  std::optional<kernel::Calibration> calibration;  // with bpf
};

// Where and by what a score is shown.
struct ProcessShow {
  Bytes page;               // size of one
  std::size_t columns = 0;  // of the terminal; 0: lines may be as long as they like
};

// Points that are no amount: of who asked to be chosen first (LONG_MAX), and of one that goes
// although oom_badness() would refuse it (LONG_MIN).
[[nodiscard]] constexpr bool are_pages(Pages points) {
  return points != std::numeric_limits<Pages>::max() && points != std::numeric_limits<Pages>::min();
}

// A process with its points: nothing when it cannot be chosen.
struct ScoredRow {
  const ProcessSample* process = nullptr;
  std::optional<Pages> points;
  std::optional<std::int64_t> oom_score;  // nothing: the domain is not the node
  std::string cgroup;                     // path; empty: not known
};

// Names and paths may hold anything: what a terminal would act on becomes '?'.
[[nodiscard]] std::string printable(std::string_view text);

// "python3 (pid 4711)".
[[nodiscard]] std::string who(const ProcessSample& process);

// "12340 pages (48.2 MiB)".
[[nodiscard]] std::string pages_text(Pages pages, Bytes page);

// In five characters at most, as `free -h` has it: "0", "812K", "1.5G", "96M".
[[nodiscard]] std::string brief(Bytes bytes);

// What a process' oom_score_adj adds to its points in a domain of `total_pages`.
[[nodiscard]] Pages adjustment(const ProcessSample& process, Pages total_pages);

// One row per process: score, points, what they are made of, cgroup. The last is cut from its left
// where the line would not fit. `numbered` counts the rows from 1.
[[nodiscard]] std::string process_table(const std::vector<ScoredRow>& rows, const ProcessShow& show,
                                        bool numbered);

// What the points of a few processes are made of, side by side, and what /proc shows of them.
[[nodiscard]] std::string parts_table(const std::vector<ScoredRow>& rows, Pages total_pages,
                                      const ProcessShow& show);

// Why it cannot be chosen, as the end of a sentence; empty for one that can be.
[[nodiscard]] std::string_view unkillable_text(Unkillable reason);

// How it was read, a sentence.
[[nodiscard]] std::string reading_text(const ProcessReading& reading);

// The paths of a scene's cgroups, which must outlive it.
class CgroupPaths {
 public:
  explicit CgroupPaths(const OomScene& scene);
  // Empty: it is not one of them.
  [[nodiscard]] std::string of(CgroupId cgroup) const;

 private:
  std::map<CgroupId, const std::string*> paths_;
};

[[nodiscard]] v1::ProcessReading to_report(const ProcessReading& reading);
[[nodiscard]] v1::ScoredProcess to_report(const ScoredRow& row, Pages total_pages);

}  // namespace forestall::cli
