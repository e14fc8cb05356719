// SPDX-License-Identifier: Apache-2.0
// Processes and their scores as text and as messages, for `score` and `rank --kernel`. Pure
// functions.
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
#include "base/printable.h"
#include "forestall/v1/report.pb.h"
#include "kernel/task_scan.h"
#include "model/oom.h"

namespace forestall::tables {

// How the processes were read.
struct ProcessReading {
  std::string source;       // "bpf" or "proc"
  std::string bpf_failure;  // why BPF was not used; empty: it was, or it is disabled
  std::optional<kernel::Calibration> calibration;  // with bpf
};

// How scores are shown.
struct ProcessShow {
  Bytes page;               // page size
  std::size_t columns = 0;  // of the terminal; 0: lines are not cut
};

// Points that are not amounts: LONG_MAX of a process that requested to be chosen first, and
// LONG_MIN of a victim that oom_badness() would refuse.
[[nodiscard]] constexpr bool are_pages(Pages points) {
  return points != std::numeric_limits<Pages>::max() && points != std::numeric_limits<Pages>::min();
}

// A process with its points; without points it is not eligible.
struct ScoredRow {
  const ProcessSample* process = nullptr;
  std::optional<Pages> points;
  std::optional<std::int64_t> oom_score;  // nothing: the domain is not the node
  std::string cgroup;                     // path; empty: unknown
};

// "python3 (pid 4711)".
[[nodiscard]] std::string who(const ProcessSample& process);

// "12340 pages (48.2 MiB)".
[[nodiscard]] std::string pages_text(Pages pages, Bytes page);

// At most five characters, in the format of `free -h`: "0", "812K", "1.5G", "96M".
[[nodiscard]] std::string brief(Bytes bytes);

// The contribution of oom_score_adj to the points of a process in a domain of `total_pages`.
[[nodiscard]] Pages adjustment(const ProcessSample& process, Pages total_pages);

// One row per process: score, points, their parts, cgroup. Cgroup paths are cut from the left to
// fit the line. `numbered` counts the rows from 1.
[[nodiscard]] std::string process_table(const std::vector<ScoredRow>& rows, const ProcessShow& show,
                                        bool numbered);

// The parts of the points of a few processes side by side, and the values of /proc.
[[nodiscard]] std::string parts_table(const std::vector<ScoredRow>& rows, Pages total_pages,
                                      const ProcessShow& show);

// Why it is not eligible, as the end of a sentence; empty: it is eligible.
[[nodiscard]] std::string_view unkillable_text(Unkillable reason);

// One sentence on how the processes were read.
[[nodiscard]] std::string reading_text(const ProcessReading& reading);

// Paths of the cgroups of a scene, which must outlive this.
class CgroupPaths {
 public:
  explicit CgroupPaths(const OomScene& scene);
  // Empty: not a cgroup of the scene.
  [[nodiscard]] std::string of(CgroupId cgroup) const;

 private:
  std::map<CgroupId, const std::string*> paths_;
};

[[nodiscard]] v1::ProcessReading to_report(const ProcessReading& reading);
[[nodiscard]] v1::ScoredProcess to_report(const ScoredRow& row, Pages total_pages);

}  // namespace forestall::tables
