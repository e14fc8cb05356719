// SPDX-License-Identifier: Apache-2.0
// The processes of one workload, from /proc of this host. An agent on the same host is not queried
// for them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "forestall/internal/top.pb.h"
#include "kernel/cgroup_tree.h"
#include "model/process.h"
#include "sources/process_source.h"

namespace forestall::top {

// Thread rule: one thread.
class ProcessListSource {
 public:
  // More processes are counted, but not listed.
  static constexpr std::size_t kListedMax = 500;

  // `tree`, if not null, must outlive this.
  explicit ProcessListSource(const kernel::CgroupTree* tree) : tree_(tree) {}

  // Sets `processes` of the report: those in the cgroup at `path` and its descendants. REQUIRES:
  // the report has the node's values.
  void read(const std::string& path, internal::TopReport& report);

 private:
  [[nodiscard]] Result<void> read_processes(const v1::NodeSample& node,
                                            internal::TopProcesses& out);

  const kernel::CgroupTree* tree_;
  std::unique_ptr<sources::ProcessSource> source_;  // opened on first use
  std::vector<ProcessSample> samples_;
};

}  // namespace forestall::top
