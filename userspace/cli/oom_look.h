// SPDX-License-Identifier: Apache-2.0
// How `score` and `rank --kernel` look at this host: every process, scored in the kernel where BPF
// may be used, and from /proc elsewhere. Nothing is changed by it.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "cli/process_text.h"
#include "kernel/cgroup_tree.h"
#include "model/feature.h"
#include "model/oom.h"
#include "sources/process_source.h"

namespace forestall::cli {

struct OpenedProcesses {
  std::unique_ptr<sources::ProcessSource> source;
  ProcessReading reading;
};

// By BPF, unless `disabled` has bpf or bpf_tasks, or the kernel refuses. `tree` must outlive it.
[[nodiscard]] Result<OpenedProcesses> open_processes(const kernel::CgroupTree& tree,
                                                     const FeatureSet& disabled);

struct BrokenTie {
  OomPrediction prediction;
  std::optional<bool> order_known;  // of those that tie for the most points; nothing: no two do
};

// The prediction for the scene, once the kernel's own order of those that tie is put into it.
[[nodiscard]] Result<BrokenTie> predict(sources::ProcessSource& processes, OomScene& scene);

// Size of a page, and the width of the terminal on standard output, if it is one.
[[nodiscard]] ProcessShow show_here();

}  // namespace forestall::cli
