// SPDX-License-Identifier: Apache-2.0
#include "agent/lift_headroom.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "kernel/amount_setting.h"
#include "kernel/memory_files.h"
#include "model/workload.h"

namespace forestall::agent {
namespace {

// The least of memory.max and memory.high; nothing: it has neither.
Result<std::optional<Bytes>> limit_of(const kernel::CgroupDir& cgroup) {
  const auto max = TRY(kernel::read_amount(cgroup, "memory.max"));
  const auto high = TRY(kernel::read_amount(cgroup, "memory.high"));
  return max && high ? std::min(max, high) : std::max(max, high);
}

// What a cgroup has left below its limit; nothing: it has none. One that is full of page cache has
// room.
Result<std::optional<Bytes>> left_below_limit(const kernel::CgroupDir& cgroup) {
  const auto limit = TRY(limit_of(cgroup));
  if (!limit) return std::optional<Bytes>();
  return std::optional(*limit - TRY(read_working_set(cgroup)));
}

bool is_below(std::string_view path, std::string_view above) {
  return path.starts_with(above) && path.substr(above.size()).starts_with('/');
}

// Empty: everything.
Bytes granted_below(std::string_view path, std::span<const LiftGrant> grants) {
  Bytes granted;
  for (const LiftGrant& each : grants) {
    if (is_below(each.path, path)) granted += each.unused;
  }
  return granted;
}

}  // namespace

Result<Bytes> read_working_set(const kernel::CgroupDir& cgroup) {
  const Bytes usage = TRY(kernel::read_usage(cgroup));
  const auto text = TRY(cgroup.read("memory.stat"));
  const auto stat = TRY(kernel::parse_memory_stat(text));
  if (!stat.inactive_file) return error(cgroup.path() + "/memory.stat has no inactive_file");
  return working_set(usage, *stat.inactive_file);
}

Result<LiftHeadroom> LiftHeadroom::open(const kernel::CgroupTree& tree, const std::string& proc) {
  return LiftHeadroom(tree, TRY(sources::NodeReader::open(tree, proc)));
}

Result<Bytes> LiftHeadroom::of_node(const std::optional<Bytes>& reserve) {
  if (!reserve) return error("the memory of the node is unknown");
  std::vector<SourceNote> problems;
  const NodeSample node = node_.read(buffer_, problems);
  const auto free = policy::lift_headroom(node, *reserve);
  if (!free && !problems.empty()) return error(problems[0].subject + ": " + problems[0].problem);
  if (!free) return error("the available memory of the node is unknown");
  return *free;
}

Result<policy::LiftRoom> LiftHeadroom::of_cgroup(const std::string& path, CgroupId cgroup,
                                                 const std::optional<Bytes>& reserve,
                                                 std::span<const LiftGrant> grants) {
  const auto opened = TRY(tree_->open(path));
  if (opened.id() != cgroup) return Error{ENODEV, path + " was removed"};
  const Bytes usage = TRY(kernel::read_usage(opened));
  const auto max = TRY(kernel::read_amount(opened, "memory.max"));
  Bytes headroom = TRY(of_node(reserve)) - granted_below("", grants);
  if (const auto least = TRY(above(path, grants))) headroom = std::min(headroom, *least);
  return policy::LiftRoom{usage, max, headroom};
}

Result<std::optional<Bytes>> LiftHeadroom::above(std::string_view path,
                                                 std::span<const LiftGrant> grants) const {
  std::optional<Bytes> least;
  for (auto end = path.rfind('/'); end != std::string_view::npos && end > 0;
       end = path.rfind('/')) {
    path = path.substr(0, end);
    const auto cgroup = TRY(tree_->open(path));
    const auto left = TRY(left_below_limit(cgroup));
    if (!left) continue;
    const Bytes free = *left - granted_below(path, grants);
    least = std::min(least.value_or(free), free);
  }
  return least;
}

}  // namespace forestall::agent
