// SPDX-License-Identifier: Apache-2.0
// Reads all processes for `score` and `rank --kernel`. Scores come from the kernel where BPF is
// available, and from /proc otherwise. It changes nothing.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/feature.h"
#include "model/oom.h"
#include "sources/process_source.h"
#include "tables/process_text.h"

namespace forestall::cli {

struct OpenedProcesses {
  std::unique_ptr<sources::ProcessSource> source;
  tables::ProcessReading reading;
};

// Uses BPF unless `disabled` has bpf or bpf_tasks, or the kernel refuses. `tree` must outlive the
// result.
[[nodiscard]] Result<OpenedProcesses> open_processes(const kernel::CgroupTree& tree,
                                                     const FeatureSet& disabled);

struct BrokenTie {
  OomPrediction prediction;
  std::optional<bool> order_known;  // of processes that tie for the most points; nothing: no tie
};

// Predicts the victim, with the kernel's own order of processes that tie.
[[nodiscard]] Result<BrokenTie> predict(sources::ProcessSource& processes, OomScene& scene);

// Page size, and the width of the terminal if standard output is one.
[[nodiscard]] tables::ProcessShow show_here();

}  // namespace forestall::cli
