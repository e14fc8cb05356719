// SPDX-License-Identifier: Apache-2.0
#include "exports/event_broadcast.h"

#include <sys/eventfd.h>

#include <ctime>
#include <utility>

namespace forestall::exports {
namespace {

std::int64_t wall_time_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

Result<std::unique_ptr<EventBroadcast>> EventBroadcast::create() {
  UniqueFd news(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!news) return errno_error("eventfd", "for watch clients");
  return std::unique_ptr<EventBroadcast>(new EventBroadcast(std::move(news)));
}

void EventBroadcast::report() {
  // EAGAIN: the counter is at its maximum, so the reader is already notified.
  (void)eventfd_write(news_.get(), 1);
}

void EventBroadcast::write(const Record& record) {
  const bool is_watched = watched_.load(std::memory_order_relaxed);
  const bool is_kill = record.begun || record.outcome;
  if (!is_watched && !(is_kill && always_publishes_kills_.load(std::memory_order_relaxed))) return;
  // Some kills have no evaluation of their own. Clearing this makes the next evaluation report
  // which thresholds are met since the kill.
  if (record.decision.action == Action::kill) met_.reset();
  if (Record* slot = records_.next_free()) {
    *slot = record;
    records_.push();
    holds_slots_ = true;
    report();
  } else {
    dropped_.fetch_add(1, std::memory_order_relaxed);
  }
}

// Whether the set of met thresholds changed. The order of the evidence can change too, so the
// comparison uses a sum of hashes, which does not depend on the order.
bool EventBroadcast::crossed(const std::vector<Evidence>& evidence) {
  std::uint64_t met = evidence.size();
  for (const Evidence& each : evidence) {
    if (!each.met) continue;
    std::uint64_t mixed = each.cgroup.inode * 0x9e3779b97f4a7c15;
    mixed ^= static_cast<std::uint64_t>(each.threshold.signal) << 56;
    mixed ^= static_cast<std::uint64_t>(each.threshold.grace.count());
    met += (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9;
  }
  return std::exchange(met_, met) != met;
}

void EventBroadcast::evaluated(const Evaluation& evaluation) {
  if (!watched_.load(std::memory_order_relaxed)) {
    if (!holds_slots_ || !records_.all_read() || !evaluations_.all_read()) return;
    records_.clear();
    evaluations_.clear();
    met_.reset();
    holds_slots_ = false;
    return;
  }
  EvaluationNote* slot = evaluations_.next_free();
  if (slot == nullptr) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  slot->woken = evaluation.observation.wake.at;
  slot->decided = SystemClock().now();
  slot->wall_time_ns = wall_time_ns();
  slot->wake = evaluation.observation.wake.source;
  slot->cgroup = evaluation.observation.wake.cgroup.value_or(CgroupId{});
  slot->action = evaluation.decision.action;
  slot->reason = evaluation.decision.reason;
  slot->crossed = crossed(evaluation.decision.evidence);
  slot->evidence.clear();
  if (slot->crossed) slot->evidence = evaluation.decision.evidence;
  evaluations_.push();
  holds_slots_ = true;
  report();
}

void EventBroadcast::drain(const std::function<void(const Record&)>& record,
                           const std::function<void(const EvaluationNote&)>& evaluation) {
  eventfd_t ignored = 0;
  (void)eventfd_read(news_.get(), &ignored);
  for (;;) {
    const Record* next_record = records_.front();
    const EvaluationNote* next_evaluation = evaluations_.front();
    if (next_record == nullptr && next_evaluation == nullptr) return;
    // An evaluation is published before the record that it led to.
    const bool evaluation_first =
        next_record == nullptr ||
        (next_evaluation != nullptr && next_evaluation->woken <= next_record->stages.crossed);
    if (evaluation_first) {
      evaluation(*next_evaluation);
      evaluations_.pop();
    } else {
      record(*next_record);
      records_.pop();
    }
  }
}

}  // namespace forestall::exports
