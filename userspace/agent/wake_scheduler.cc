// SPDX-License-Identifier: Apache-2.0
#include "agent/wake_scheduler.h"

#include <algorithm>
#include <thread>

#include "sources/poll_source.h"

namespace forestall::agent {
namespace {

constexpr Duration kShortestRetry = std::chrono::milliseconds(10);
constexpr Duration kLongestRetry = std::chrono::seconds(1);
// The longest that a hint of pressure may wait.
constexpr Duration kHintMax = std::chrono::milliseconds(100);
// Of evaluations while kills go on and none changes its state. A kill ends in dozens of events, and
// memory that returns counts as available from the signal on.
constexpr Duration kProgressInterval = std::chrono::milliseconds(10);
// The same if a hint can be about no line: the kernel reports all of them. The evaluation then only
// checks that.
constexpr Duration kNeedlessHintMax = std::chrono::seconds(5);

// Usage crossed a line, or the kernel is about to act: such a wake never waits.
bool is_urgent(const Wake& wake) {
  switch (wake.source) {
    case WakeSource::reclaim:
    case WakeSource::stall:
    case WakeSource::psi_trigger:
    case WakeSource::workload_change:
    case WakeSource::kill_progress: return false;
    default: return true;
  }
}

// The wake that goes on record: the first that reports a crossing, else the first.
const Wake& foremost(const std::vector<Wake>& wakes) {
  const auto sees_usage = [](const Wake& wake) { return wake.usage.has_value(); };
  const auto found = std::ranges::find_if(wakes, sees_usage);
  return found == wakes.end() ? wakes.front() : *found;
}

}  // namespace

std::optional<Wake> WakeScheduler::admit(const std::vector<Wake>& wakes, MonotonicTime rescan_at,
                                         MonotonicTime now) {
  MonotonicTime soonest = admitted_at(wakes.front(), rescan_at);
  for (const Wake& wake : wakes) soonest = std::min(soonest, admitted_at(wake, rescan_at));
  if (soonest <= now) return foremost(wakes);
  if (!deferred_until_ || soonest < *deferred_until_) defer(foremost(wakes), soonest);
  return std::nullopt;
}

MonotonicTime WakeScheduler::admitted_at(const Wake& wake, MonotonicTime rescan_at) const {
  if (is_urgent(wake)) return wake.at;
  if (wake.source == WakeSource::workload_change) return rescan_at;
  if (wake.source == WakeSource::kill_progress) return began_at_ + kProgressInterval;
  if (!hint_headroom_) return began_at_ + kNeedlessHintMax;
  static const std::int64_t kRate =
      sources::possible_fill_rate(std::thread::hardware_concurrency());
  const double seconds = static_cast<double>(hint_headroom_->count) / static_cast<double>(kRate);
  const auto quiet = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  return began_at_ + std::min(quiet, kHintMax);
}

void WakeScheduler::defer(const Wake& wake, MonotonicTime until) {
  deferred_ = wake;
  deferred_until_ = until;
}

void WakeScheduler::begin(MonotonicTime now) {
  began_at_ = now;
  deferred_until_.reset();
}

void WakeScheduler::schedule_retry(const Decision& decision, MonotonicTime now) {
  if (std::ranges::none_of(decision.evidence, &Evidence::requires_eviction)) {
    retry_at_.reset();
    retry_delay_ = Duration::zero();
    return;
  }
  if (retry_at_ && *retry_at_ > now) return;
  retry_delay_ = std::clamp(retry_delay_ * 2, kShortestRetry, kLongestRetry);
  retry_at_ = now + retry_delay_;
}

std::optional<Wake> WakeScheduler::ready_wake(MonotonicTime now) const {
  if (!deferred_until_ || *deferred_until_ > now) return std::nullopt;
  return deferred_;
}

std::optional<MonotonicTime> WakeScheduler::next() const {
  std::optional<MonotonicTime> next;
  for (const auto& due : {deferred_until_, deadline_, retry_at_}) {
    if (due && (!next || *due < *next)) next = due;
  }
  return next;
}

}  // namespace forestall::agent
