// SPDX-License-Identifier: Apache-2.0
// Paths of memory cgroups by their ids: what the tracer's programs tell is a number, and the cgroup
// may be gone before the number is read.
//
// Filled by a walk over the tree and, as cgroups come, by what BPF tells of them. Names of removed
// cgroups are kept, the last kRemovedMax of them: no id is ever used again (kernel/fs/kernfs).
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
  // An id that is not known makes it walk the tree, but no more often than this.
  static constexpr Duration kWalkEvery = std::chrono::seconds(1);

  // `tree` outlives this.
  explicit CgroupNames(const kernel::CgroupTree& tree) : tree_(tree) {}

  // Reads the whole tree. What it does not find any more counts as removed.
  Result<void> walk(MonotonicTime now);
  // A cgroup appeared, or has another name.
  void put(CgroupId id, std::string_view path);
  // It was removed; its name stays.
  void remove(CgroupId id);

  // The path; empty: not known. The view lives until the next call of anything but this.
  [[nodiscard]] std::string_view find(CgroupId id) const;
  // The same, walking the tree for an id that is not known. Inode 0 is no cgroup.
  [[nodiscard]] std::string_view name(CgroupId id, MonotonicTime now);
  // Whether it is known to have been removed.
  [[nodiscard]] bool is_removed(CgroupId id) const;
  // Those that are not removed, in no order.
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
