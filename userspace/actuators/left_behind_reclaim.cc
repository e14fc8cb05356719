// SPDX-License-Identifier: Apache-2.0
#include "actuators/left_behind_reclaim.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "actuators/event_key.h"
#include "actuators/usage_meter.h"
#include "kernel/memory_kinds.h"

namespace forestall::actuators {
namespace {

constexpr Duration kAgain = std::chrono::seconds(10);

std::optional<Bytes> usage_of(const kernel::CgroupDir& group, kernel::CgroupVersion version) {
  const auto meter = UsageMeter::open(group, version);
  return meter ? meter->read().optional() : std::nullopt;
}

}  // namespace

bool LeftBehindReclaim::start(const WorkloadSample& sample) {
  if (running_ || sample.processes != 0U) return false;
  const MonotonicTime now = clock_.now();
  std::erase_if(tried_, [&](const Tried& tried) { return now - tried.at >= kAgain; });
  const CgroupId cgroup = sample.workload.cgroup;
  const bool again = std::ranges::find(tried_, cgroup, &Tried::cgroup) != tried_.end();
  if (again || tried_.size() >= kGroupsMax) return false;
  tried_.push_back({cgroup, now});
  auto group = tree_.open(sample.workload.path);
  if (!group || group->id() != cgroup) return false;  // removed, or another one by now
  const bool v1 = tree_.version() == kernel::CgroupVersion::v1;
  auto file = group->open_file(v1 ? "memory.force_empty" : "memory.reclaim", O_WRONLY);
  const Bytes before = sample.usage.value_or(Bytes{0});
  if (!file.ok()) {
    ended_.push_back({sample.workload.path, before, std::nullopt, {}, file.error()});
    return false;
  }
  if (++last_number_ >= EventKey::kReclaim) last_number_ = 1;
  const std::uint64_t ticket = EventKey{0, last_number_}.pack();
  if (!reclaimer_.submit({ticket, std::move(*file), ReapCall::reclaim, v1 ? Bytes{0} : before})) {
    return false;
  }
  running_.emplace(Running{last_number_, std::move(*group), before});
  return true;
}

void LeftBehindReclaim::on_report(std::uint32_t number, const ReapReport& report) {
  if (!running_ || running_->number != number) return;
  const Running ended = std::move(*std::exchange(running_, std::nullopt));
  Reclaimed reclaimed{
      ended.group.path(), ended.before, usage_of(ended.group, tree_.version()), {}, {}};
  reclaimed.kinds =
      kernel::memory_kinds(ended.group, tree_.version()).optional().value_or(MemoryKinds());
  if (report.result == ReapResult::failed) {
    reclaimed.failure = Error{report.code, "reclaim of " + ended.group.path()};
  }
  ended_.push_back(std::move(reclaimed));
}

}  // namespace forestall::actuators
