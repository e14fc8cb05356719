// SPDX-License-Identifier: Apache-2.0
#include "actuators/rule_settings.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "actuators/event_wait.h"
#include "actuators/reclaim_write.h"
#include "base/blocked_signals.h"
#include "base/start_thread.h"
#include "kernel/amount_setting.h"
#include "kernel/scheduling.h"

namespace forestall::actuators {
namespace {

// Results beyond this number are dropped, the newest ones: the loop takes them at each evaluation.
constexpr std::size_t kResultsMax = 256;
// A proactive reclaim that waits longer than this for an undo is void.
constexpr Duration kPieceTimeMax = std::chrono::seconds(2);

// One piece; false: it is over.
Result<bool> write_piece(const kernel::CgroupTree& tree, RuleReclaim& left, Bytes& reclaimed) {
  const auto cgroup = TRY(tree.open(left.path));
  if (cgroup.id() != left.cgroup) return Error{ENODEV, left.path + " was removed"};
  Bytes piece = std::min(left.amount, kReclaimWriteMax);
  if (left.proactive) {
    // Usage may have fallen since the decision.
    piece = std::min(piece, TRY(kernel::read_usage(cgroup)) - left.leave);
  }
  if (piece <= Bytes{0}) return false;
  const ReclaimWrite done = TRY(write_reclaim(cgroup, piece));
  reclaimed += done.reclaimed;
  if (done.fell_short) return false;  // so the rest is not tried either
  left.amount -= piece;
  return !left.proactive && left.amount > Bytes{0};  // one write for each decision
}

RuleSettingResult result_of(const RuleReclaim& reclaim) {
  RuleSettingResult result;
  result.path = reclaim.path;
  result.what = "memory.reclaim";
  result.wanted = reclaim.amount;
  result.ruleset = reclaim.ruleset;
  result.proactive = reclaim.proactive;
  return result;
}

}  // namespace

Result<void> RuleSettings::start() {
  return Error{ENOTSUP, "cgroup v1 has no memory.high, cgroup.freeze and memory.reclaim"};
}

Result<void> RuleSettingsThread::start() {
  if (thread_.joinable()) return {};
  changed_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!changed_) return errno_error("eventfd", "for the settings of rulesets");
  const base::BlockedSignals none_for_the_thread;
  thread_ = TRY(start_thread("forestall-rules", [this] { serve(); }));
  wake();  // an earlier start may have failed, and work may wait since
  return {};
}

RuleSettingsThread::~RuleSettingsThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    work_.stop = true;
  }
  wake();
  thread_.join();
}

void RuleSettingsThread::wake() const {
  if (changed_) ::eventfd_write(changed_.get(), 1);
}

void RuleSettingsThread::apply(std::vector<RuleSetting> wanted) {
  if (wanted == last_) return;
  last_ = wanted;
  {
    const std::lock_guard lock(mutex_);
    work_.settings.swap(wanted);
    work_.changed = true;
  }
  wake();
}

void RuleSettingsThread::reclaim(std::vector<RuleReclaim> wanted) {
  if (wanted.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    reclaims_.add(std::move(wanted));
  }
  may_reclaim_ = true;
  wake();
}

void RuleSettingsThread::cancel_reclaims() {
  if (!std::exchange(may_reclaim_, false)) return;
  const std::lock_guard lock(mutex_);
  reclaims_.clear();
  work_.cancels = true;  // seen between two pieces
}

std::vector<RuleSettingResult> RuleSettingsThread::take_results() {
  const std::lock_guard lock(mutex_);
  std::vector<RuleSettingResult> results = std::exchange(results_, {});
  for (const RuleReclaim& each : reclaims_.take_dropped()) {
    results.push_back(result_of(each));
    results.back().dropped = true;
  }
  return results;
}

RuleSettingsThread::Work RuleSettingsThread::take_work() {
  const std::lock_guard lock(mutex_);
  return {work_.settings, std::exchange(work_.changed, false), std::exchange(work_.cancels, false),
          work_.stop};
}

void RuleSettingsThread::add_result(RuleSettingResult result) {
  const std::lock_guard lock(mutex_);
  if (results_.size() < kResultsMax) results_.push_back(std::move(result));
}

std::size_t RuleSettingsThread::not_undone() const {
  const std::lock_guard lock(mutex_);
  return not_undone_;
}

void RuleSettingsThread::serve() {
  pthread_setname_np(pthread_self(), "forestall-rules");
  kernel::use_ordinary_priority();
  const SystemClock clock;
  // Its destructor undoes every setting.
  RuleSettingsWriter writer(tree_, records_,
                            [this](RuleSettingResult result) { add_result(std::move(result)); });
  for (;;) {
    Work work = take_work();
    if (work.stop) return;
    if (work.cancels && reclaiming_) end_reclaim();
    writer.set_wanted(std::move(work.settings));
    std::optional<MonotonicTime> due = writer.advance(clock.now());
    {
      const std::lock_guard lock(mutex_);
      not_undone_ = writer.not_undone();
    }
    if (reclaim_piece(clock, writer.next_undo())) due = clock.now();
    wait_for_event(changed_.get(), due);
  }
}

// Nothing is undone during a write. So a proactive one waits for an undo that may be due before it
// returns; the others are short of memory.
bool RuleSettingsThread::reclaim_piece(const Clock& clock, MonotonicTime undo) {
  const MonotonicTime begun = clock.now();
  if (!has_piece(begun, undo - begun > piece_time_)) return false;
  const auto goes_on = write_piece(tree_, reclaiming_->left, reclaiming_->result.reclaimed);
  piece_time_ = std::clamp(clock.now() - begun, piece_time_ / 2, kPieceTimeMax);
  if (!goes_on) reclaiming_->result.failure = goes_on.error();
  if (!goes_on || !*goes_on) end_reclaim();
  return true;
}

bool RuleSettingsThread::has_piece(MonotonicTime now, bool may_be_proactive) {
  const std::lock_guard lock(mutex_);
  if (work_.changed) return false;  // the settings come first, and apply() wakes this thread
  if (reclaiming_) return true;
  auto next = reclaims_.take(now, may_be_proactive);
  if (!next) return false;
  RuleSettingResult result = result_of(*next);
  reclaiming_ = Reclaiming{std::move(*next), std::move(result)};
  return true;
}

void RuleSettingsThread::end_reclaim() {
  const auto& failure = reclaiming_->result.failure;
  if (!failure || !kernel::is_removed(*failure)) add_result(std::move(reclaiming_->result));
  reclaiming_.reset();
  const std::lock_guard lock(mutex_);
  reclaims_.end();
}

}  // namespace forestall::actuators
