// SPDX-License-Identifier: Apache-2.0
// A scene of the OOM killer for the tests of `score` and `rank --kernel`: a node of 1,000,000 pages
// with a batch job, a server with a lowered oom_score_adj, and processes that cannot be chosen.
#pragma once

#include <algorithm>
#include <string_view>

#include "model/oom.h"
#include "tables/process_text.h"

namespace forestall::test {

struct ExampleProcess {
  pid_t pid = 0;
  std::string_view name;
  ProcessMemory memory;
  std::int32_t oom_score_adj = 0;
  std::uint64_t cgroup = 1;
  Unkillable unkillable = Unkillable::none;
};

[[nodiscard]] inline ProcessSample sample_of(const ExampleProcess& example) {
  ProcessSample process;
  process.id = {example.pid, 1000};
  process.cgroup.inode = example.cgroup;
  process.memory_id = static_cast<std::uint64_t>(example.pid);
  process.memory = example.memory;
  process.oom_score_adj = example.oom_score_adj;
  process.unkillable = example.unkillable;
  process.order = static_cast<std::uint64_t>(example.pid);
  std::copy(example.name.begin(), example.name.end(), process.comm.begin());
  return process;
}

// Indices: 0 systemd, 1 server, 2 worker, 3 compiler, 4 monitor.
[[nodiscard]] inline OomScene example_scene() {
  OomScene scene;
  scene.domain.total_pages = 1'000'000;
  scene.cgroups = {{CgroupId{1}, "/", std::nullopt, false},
                   {CgroupId{2}, "/batch", 0, false},
                   {CgroupId{3}, "/batch/nightly-build", 1, false}};
  scene.processes = {
      sample_of({1, "systemd", {2000, 1000, 0, 0, 40}, 0, 1, Unkillable::init}),
      sample_of({700, "server", {5000, 300'000, 20'000, 10, 700}, -500}),
      sample_of({4711, "worker", {100, 120'000, 0, 0, 300}, 0, 2}),
      sample_of({4712, "compiler", {3000, 90'000, 0, 5000, 400}, 30, 3}),
      sample_of({800, "monitor", {50, 50, 0, 0, 5}, -1000, 9, Unkillable::adjusted}),
  };
  return scene;
}

[[nodiscard]] inline tables::ProcessReading read_by_bpf() {
  return {"bpf", "", kernel::Calibration{kernel::RssCounting::counted, true, "seen"}};
}

}  // namespace forestall::test
