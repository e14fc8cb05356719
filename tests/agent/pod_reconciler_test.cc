// SPDX-License-Identifier: Apache-2.0
#include "agent/pod_reconciler.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "support/manual_clock.h"
#include "support/small_node.h"

namespace forestall::agent {
namespace {

// Calls of read(2) and pread(2) by this thread.
std::uint64_t reads() {
  std::ifstream file("/proc/thread-self/io");
  std::string name;
  for (std::uint64_t value = 0; file >> name >> value;) {
    if (name == "syscr:") return value;
  }
  return 0;
}

// Of one reconciliation with that many workloads.
std::uint64_t reads_with(int workloads) {
  test::SmallNode files;
  for (int i = 0; i < workloads; ++i) {
    files.set_group("/w" + std::to_string(i), 100, 10);
  }
  Config config;
  config.pods = false;
  config.local_storage_isolation = false;
  config.known_pods = {std::make_shared<const Pod>()};
  WorkloadRule rule;
  rule.cgroup = "/w*";
  config.workloads = {rule};
  const auto tree = kernel::CgroupTree::discover(files / "cgroup");
  const auto observer = sources::Observer::create(*tree, config, files / "proc");
  (*observer)->refresh();
  EXPECT_EQ((*observer)->workload_count(), static_cast<std::size_t>(workloads));
  exports::Log log(exports::Log::Stream::standard_error, true, exports::LogLevel::error);
  const test::ManualClock clock;
  LoopMemoryQos no_memory_qos;
  LoopContainerPressure no_container_pressure;
  PodAnnotationReporter annotations(*tree, log);
  PodReconciler reconciler(clock, **observer, *tree, log, config,
                           {no_memory_qos, no_container_pressure, annotations});
  const std::uint64_t before = reads();
  reconciler.reconcile();
  return reads() - before;
}

TEST(PodReconciler, ReadsNoWorkload) {
  ASSERT_GT(reads(), 0U) << "not counted by this kernel";
  EXPECT_EQ(reads_with(40), reads_with(2));
}

}  // namespace
}  // namespace forestall::agent
