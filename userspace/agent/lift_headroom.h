// SPDX-License-Identifier: Apache-2.0
// How much memory a lift of memory.high may give to a cgroup: the least of what the node and the
// cgroups above it have left, without what other lifts have given and is not used yet.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/ids.h"
#include "policy/throttle_lift.h"
#include "sources/node_reader.h"

namespace forestall::agent {

// Usage without inactive file pages, which the kernel reclaims before a charge fails.
[[nodiscard]] Result<Bytes> read_working_set(const kernel::CgroupDir& cgroup);

// What a lift allows a cgroup beyond its usage.
struct LiftGrant {
  std::string path;
  Bytes unused;
};

// Thread rule: one thread at a time.
class LiftHeadroom {
 public:
  // REQUIRES: cgroup v2. `tree` outlives it.
  static Result<LiftHeadroom> open(const kernel::CgroupTree& tree,
                                   const std::string& proc = "/proc");

  // What the node has left above `reserve` (policy::lift_headroom); negative if it is short. An
  // error also if the reserve is unknown.
  [[nodiscard]] Result<Bytes> of_node(const std::optional<Bytes>& reserve);
  // `grants`: of all lifts. An error also if the cgroup is not at `path` any more.
  [[nodiscard]] Result<policy::LiftRoom> of_cgroup(const std::string& path, CgroupId cgroup,
                                                   const std::optional<Bytes>& reserve,
                                                   std::span<const LiftGrant> grants);

 private:
  LiftHeadroom(const kernel::CgroupTree& tree, sources::NodeReader node)
      : tree_(&tree), node_(std::move(node)) {}
  // Nothing: none of the cgroups above has a limit.
  [[nodiscard]] Result<std::optional<Bytes>> above(std::string_view path,
                                                   std::span<const LiftGrant> grants) const;

  const kernel::CgroupTree* tree_;
  sources::NodeReader node_;
  std::string buffer_;
};

}  // namespace forestall::agent
