// SPDX-License-Identifier: Apache-2.0
// Paths of memory cgroups by id. The tracer's BPF programs report a number, and the cgroup may be
// removed before the number is read.
//
// Filled by a walk over the tree and by BPF events about new cgroups. The names of the last
// kRemovedMax removed cgroups are kept; ids are never reused (kernel/fs/kernfs).
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/ids.h"

namespace forestall::sources {

// Thread rule: one thread.
class CgroupNames {
 public:
  static constexpr std::size_t kRemovedMax = 65536;
  // An unknown id triggers a walk of the tree, at most this often.
  static constexpr Duration kWalkEvery = std::chrono::seconds(1);

  // `tree` outlives this.
  explicit CgroupNames(const kernel::CgroupTree& tree) : tree_(tree) {}

  // Reads the whole tree. Cgroups that are no longer there count as removed.
  Result<void> walk(MonotonicTime now);
  // A cgroup was created or renamed.
  void put(CgroupId id, std::string_view path);
  // The cgroup was removed; its name stays.
  void remove(CgroupId id);

  // The path; empty if unknown. The view is valid until the next call of another function.
  [[nodiscard]] std::string_view find(CgroupId id) const;
  // Like find(), but walks the tree for an unknown id. Inode 0 is no cgroup.
  [[nodiscard]] std::string_view name(CgroupId id, MonotonicTime now);
  // Whether the cgroup is known to be removed.
  [[nodiscard]] bool is_removed(CgroupId id) const;
  // Visits the cgroups that are not removed, in no particular order.
  void visit(const std::function<void(CgroupId, const std::string& path)>& visit) const;

 private:
  struct Name {
    std::string path;
    bool removed = false;
  };

  const kernel::CgroupTree& tree_;
  std::unordered_map<std::uint64_t, Name> names_;
  std::deque<CgroupId> removed_;  // oldest first
  MonotonicTime walked_;
};

}  // namespace forestall::sources
