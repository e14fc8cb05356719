// SPDX-License-Identifier: Apache-2.0
// The node's memory as kubelet computes it (pkg/kubelet/stats, cadvisor, runc's fs/memory.go and
// fs2/memory.go): on cgroup v1 the root group's usage_in_bytes; on v2, whose root has no such
// file, anon + file of the root's memory.stat; inactive_file from memory.stat, totals from meminfo.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/held_file.h"
#include "model/observation.h"

namespace forestall::sources {

class NodeReader {
 public:
  static Result<NodeReader> open(const kernel::CgroupTree& tree, const std::string& proc);

  // Fresh values; what could not be read stays unknown and gets a note.
  [[nodiscard]] NodeSample read(std::string& buffer, std::vector<SourceNote>& notes) const;

 private:
  NodeReader(kernel::HeldFile meminfo, kernel::HeldFile stat) noexcept
      : meminfo_(std::move(meminfo)), stat_(std::move(stat)) {}
  kernel::HeldFile meminfo_;
  kernel::HeldFile stat_;
  std::optional<kernel::HeldFile> usage_;  // v1
};

}  // namespace forestall::sources
