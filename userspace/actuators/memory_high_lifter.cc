// SPDX-License-Identifier: Apache-2.0
#include "actuators/memory_high_lifter.h"

#include <cerrno>
#include <chrono>
#include <utility>

namespace forestall::actuators {
namespace {

// For one step, which waits for the kernel's reclaim.
constexpr Duration kRestoreTime = std::chrono::milliseconds(1);
// For all values at the end of the agent.
constexpr Duration kEndTime = std::chrono::seconds(1);

}  // namespace

MemoryHighLifter::~MemoryHighLifter() {
  restore_all([](CgroupId, const std::string&, const Result<void>&) {});
}

Result<Bytes> MemoryHighLifter::lift(const std::string& path, CgroupId cgroup, Bytes high) {
  const auto directory = TRY(tree_.open(path));
  if (directory.id() != cgroup) return Error{ENODEV, path + " was removed"};
  // Of a killed agent, if the start could not restore it: what the file has is not its original.
  TRY(kernel::MemoryHigh::undo_leftover(directory, records_, SystemClock().now()));
  auto opened = TRY(kernel::MemoryHigh::open(directory, records_));
  TRY(opened.raise(directory, high));
  const Bytes lifted = opened.current().value_or(high);
  lifted_.emplace(cgroup, Lifted{path, std::move(opened)});
  return lifted;
}

std::optional<Bytes> MemoryHighLifter::original(CgroupId cgroup) {
  const auto found = lifted_.find(cgroup);
  if (found == lifted_.end()) return std::nullopt;
  const kernel::MemoryHigh& high = found->second.high;
  const auto present = high.read();
  const auto original = high.original();
  if (present && *present == high.current()) return original;
  // A read that fails leaves it open whether the value is ours.
  if (!present && !kernel::is_removed(present.error())) return original;
  lifted_.erase(found);  // drops the record, and leaves the file
  return std::nullopt;
}

Result<void> MemoryHighLifter::restore(CgroupId cgroup) {
  const auto found = lifted_.find(cgroup);
  if (found == lifted_.end()) return {};
  TRY(found->second.high.restore(SystemClock().now() + kRestoreTime));
  lifted_.erase(found);
  return {};
}

// What is not restored keeps its record, and the next start goes on.
void MemoryHighLifter::restore_all(
    const std::function<void(CgroupId cgroup, const std::string& path, const Result<void>& done)>&
        visit) {
  const MonotonicTime end = SystemClock().now() + kEndTime;
  for (auto& [cgroup, each] : lifted_) {
    const auto present = each.high.read();
    const bool is_ours = !present || *present == each.high.current();
    const auto done = each.high.restore(end);
    if (is_ours) visit(cgroup, each.path, done);
  }
  lifted_.clear();
}

void MemoryHighLifter::for_each(
    const std::function<void(CgroupId cgroup, const std::string& path, Bytes high)>& visit) const {
  for (const auto& [cgroup, each] : lifted_) {
    if (const auto& high = each.high.current()) visit(cgroup, each.path, *high);
  }
}

}  // namespace forestall::actuators
