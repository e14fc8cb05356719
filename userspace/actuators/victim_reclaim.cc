// SPDX-License-Identifier: Apache-2.0
// The part of a kill after the last exit: reclaims and reports what stays charged to the cgroup.
#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "actuators/victim.h"
#include "kernel/memory_kinds.h"

namespace forestall::actuators {
namespace {

// What is worth a reclaim, and a report.
Bytes least_rest(Bytes usage_before) {
  return std::max(kUsageGrain, Bytes{usage_before.count / 10});
}

}  // namespace

// Page cache, tmpfs and slab outlive the processes that they are charged to. Once, when the last
// process has exited: processes that enter the cgroup later are not the victim.
void Victim::reclaim_rest() {
  if (!outcome_.exited || removed_ || only_ || reclaiming_ != Reclaiming::not_yet) return;
  if (is_reaping()) return;
  const auto usage = usage_now();
  if (!usage || !dir_) return;
  if (*usage < least_rest(outcome_.usage_before)) return;
  reclaiming_ = Reclaiming::ended;
  const bool v1 = context_.tree.version() == kernel::CgroupVersion::v1;
  auto file = dir_->open_file(v1 ? "memory.force_empty" : "memory.reclaim", O_WRONLY);
  if (!file.ok()) {
    attempt(Rung::reclaim).failure = file.error();
    return;
  }
  const std::uint64_t ticket = EventKey{number_, EventKey::kReclaim}.pack();
  const bool queued = context_.reclaimer.submit(
      {ticket, std::move(*file), ReapCall::reclaim, MonotonicTime::max(), v1 ? Bytes{0} : *usage});
  if (queued) {
    reclaiming_ = Reclaiming::queued;
  } else {
    attempt(Rung::reclaim).failure = Error{EAGAIN, "queue of the reclaim thread full"};
  }
}

// A process may have exited while a reaper thread still frees its memory.
bool Victim::is_reaping() const {
  return std::ranges::any_of(held_,
                             [](const Held& held) { return held.reaping == Reaping::queued; });
}

void Victim::on_reclaim(const ReapReport& report) {
  reclaiming_ = Reclaiming::ended;
  Attempt& tried = attempt(Rung::reclaim);
  if (report.result == ReapResult::failed) {
    tried.failure = Error{report.code, "reclaim of " + outcome_.victim.path};
  }
}

void Victim::note_left_behind(Bytes usage) {
  if (usage < least_rest(outcome_.usage_before) || !dir_) return;
  outcome_.left_behind = LeftBehind{usage, {}};
  const auto kinds = kernel::memory_kinds(*dir_, context_.tree.version());
  if (kinds.ok()) {
    outcome_.left_behind->kinds = *kinds;
  } else {
    attempt(Rung::reclaim).failure = kinds.error();
  }
}

}  // namespace forestall::actuators
