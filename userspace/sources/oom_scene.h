// SPDX-License-Identifier: Apache-2.0
// Reads the state that an OOM killer would act on: the cgroups of a domain, the value of a point in
// it, the kernel's settings, the processes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/oom.h"
#include "sources/process_source.h"

namespace forestall::sources {

class OomSceneReader {
 public:
  // `proc` and `sys` are the roots of procfs and of /sys/devices/system. Both references must
  // outlive the reader.
  OomSceneReader(const kernel::CgroupTree& tree, ProcessSource& processes,
                 std::string proc = "/proc", std::string sys = "/sys/devices/system");
  ~OomSceneReader();

  // The whole node is out of memory.
  Result<void> read_node(OomScene& scene);
  // The nodes of a cpuset or of a memory policy are out of memory. Fails if none of them has
  // memory.
  Result<void> read_nodes(Constraint constraint, NodeMask nodes, OomScene& scene);
  // The memory cgroup at `path` is at its limit. Fails if it has no limit.
  Result<void> read_memcg(const std::string& path, OomScene& scene);

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

// Applies the kernel's own order to the tied processes of the scene (policy::tied_for_first). In a
// memcg this is the walk order of their cgroup, otherwise that of the node. False: the order is
// unknown, or there is no tie.
[[nodiscard]] Result<bool> order_ties(ProcessSource& processes, OomScene& scene,
                                      const std::vector<std::size_t>& tied);

}  // namespace forestall::sources
