// SPDX-License-Identifier: Apache-2.0
#include "actuators/memory_high_lifter.h"

#include <cerrno>
#include <utility>

namespace forestall::actuators {

Result<Bytes> MemoryHighLifter::lift(const std::string& path, CgroupId cgroup, Bytes high) {
  const auto directory = TRY(tree_.open(path));
  if (directory.id() != cgroup) return Error{ENODEV, path + " was removed"};
  auto opened = TRY(kernel::MemoryHigh::open(directory, records_));
  TRY(opened.raise(high));
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
  TRY(found->second.high.restore());
  lifted_.erase(found);
  return {};
}

void MemoryHighLifter::for_each(
    const std::function<void(CgroupId cgroup, const std::string& path, Bytes high)>& visit) const {
  for (const auto& [cgroup, each] : lifted_) {
    if (const auto& high = each.high.current()) visit(cgroup, each.path, *high);
  }
}

}  // namespace forestall::actuators
