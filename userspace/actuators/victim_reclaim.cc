// SPDX-License-Identifier: Apache-2.0
#include "actuators/victim_reclaim.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "actuators/usage_meter.h"
#include "kernel/memory_kinds.h"

namespace forestall::actuators {
namespace {

// What is worth a reclaim, and a report.
Bytes least_rest(Bytes usage_before) {
  return std::max(kUsageGrain, Bytes{usage_before.count / 10});
}

}  // namespace

void VictimReclaim::start(const kernel::CgroupDir& directory, Bytes usage) {
  if (usage < least_rest(kill_.outcome.usage_before)) return;
  state_ = State::ended;
  const bool v1 = kill_.context.tree.version() == kernel::CgroupVersion::v1;
  auto file = directory.open_file(v1 ? "memory.force_empty" : "memory.reclaim", O_WRONLY);
  if (!file.ok()) {
    kill_.attempt(Rung::reclaim).failure = file.error();
    return;
  }
  const bool queued = kill_.context.reclaimer.submit(
      {kill_.key(EventKey::kReclaim), std::move(*file), ReapCall::reclaim, v1 ? Bytes{0} : usage});
  if (queued) {
    state_ = State::queued;
  } else {
    kill_.attempt(Rung::reclaim).failure = Error{EAGAIN, "queue of the reclaim thread full"};
  }
}

void VictimReclaim::on_report(const ReapReport& report) {
  state_ = State::ended;
  Attempt& tried = kill_.attempt(Rung::reclaim);
  if (report.result == ReapResult::failed) {
    tried.failure = Error{report.code, "reclaim of " + kill_.outcome.victim.path};
  }
}

void VictimReclaim::note_left_behind(const kernel::CgroupDir& directory, Bytes usage) {
  Outcome& outcome = kill_.outcome;
  if (usage < least_rest(outcome.usage_before)) return;
  outcome.left_behind = LeftBehind{usage, {}};
  const auto kinds = kernel::memory_kinds(directory, kill_.context.tree.version());
  if (kinds.ok()) {
    outcome.left_behind->kinds = *kinds;
  } else {
    kill_.attempt(Rung::reclaim).failure = kinds.error();
  }
}

}  // namespace forestall::actuators
