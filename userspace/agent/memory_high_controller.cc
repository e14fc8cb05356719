// SPDX-License-Identifier: Apache-2.0
#include "agent/memory_high_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "exports/amount_text.h"
#include "exports/log_line.h"
#include "kernel/memory_files.h"
#include "model/duration.h"
#include "model/workload.h"

namespace forestall::agent {
namespace {

using actuators::MemoryReserve;
using actuators::ReserveOutcome;

}  // namespace

Result<std::unique_ptr<MemoryHighController>> MemoryHighController::create(
    const kernel::CgroupTree& tree, const kernel::SettingRecords& records, exports::Log& log,
    const std::string& proc) {
  auto reader = TRY(sources::ThrottleReader::create(tree));
  auto headroom = TRY(LiftHeadroom::open(tree, proc));
  return std::unique_ptr<MemoryHighController>(
      new MemoryHighController(tree, records, log, std::move(reader), std::move(headroom)));
}

void MemoryHighController::apply(const std::vector<MemoryReserve>& wanted, const LiftRule& rule,
                                 MonotonicTime now) {
  rule_ = rule;
  unwatched_.clear();
  std::set<CgroupId> kept;
  std::vector<MemoryReserve> watched;
  for (const MemoryReserve& each : wanted) {
    if (const auto done = reader_->watch(each.cgroup, each.path); !done) {
      unwatched_[each.cgroup] = {
          MemoryQosState::left, "whether it makes progress cannot be read: " + done.error().text()};
      continue;
    }
    throttled_.try_emplace(each.cgroup, Throttled{each}).first->second.wanted = each;
    kept.insert(each.cgroup);
    watched.push_back(each);
  }
  std::erase_if(throttled_, [&](const auto& entry) {
    if (kept.contains(entry.first)) return false;
    reader_->forget(entry.first);
    return true;
  });
  writer_.apply(watched, now);
  for (auto& [cgroup, each] : throttled_) {
    if (each.next_reading) continue;
    if (writer_.lifted(cgroup)) {
      each.next_reading = now + kReadEvery;  // it has no event below its lifted value
    } else {
      wait_for_event(each, now);
    }
  }
}

bool MemoryHighController::advance(MonotonicTime now) {
  bool changed = writer_.advance(now);
  take_events(now);
  for (auto& [cgroup, throttled] : throttled_) {
    if (!throttled.next_reading || now < *throttled.next_reading) continue;
    throttled.next_reading = now + kReadEvery;
    changed = take_reading(throttled, now) || changed;
  }
  return changed;
}

std::optional<MonotonicTime> MemoryHighController::next_due() const {
  auto due = writer_.next_due();
  for (const auto& [cgroup, throttled] : throttled_) {
    const auto& next = throttled.next_reading;
    if (next) due = std::min(due.value_or(*next), *next);
  }
  return due;
}

void MemoryHighController::take_events(MonotonicTime now) {
  for (const CgroupId each : reader_->take_events()) {
    const auto found = throttled_.find(each);
    if (found == throttled_.end()) continue;
    found->second.next_reading = now;
    found->second.state.event_at = now;
  }
}

bool MemoryHighController::take_reading(Throttled& throttled, MonotonicTime now) {
  const CgroupId cgroup = throttled.wanted.cgroup;
  const auto reading = reader_->read(cgroup, now);
  if (!reading && kernel::is_removed(reading.error())) {
    // The next facts do not have it, or have it still: its PSI was turned off.
    throttled.next_reading.reset();
    return false;
  }
  const auto present = writer_.present(cgroup);
  const auto lifted = writer_.lifted(cgroup);
  if (!present && !lifted) {
    // Its events are those of another process' memory.high. If the first step is still to come, it
    // is read again after that; else the next apply() arms it.
    throttled.state = {};
    throttled.next_reading = writer_.next_step(cgroup);
    if (throttled.next_reading) *throttled.next_reading += kReadEvery;
    return false;
  }
  auto step = policy::step_throttle_lift(
      throttled.state, reading.optional(),
      {throttled.wanted.value, lifted ? *lifted : *present, rule_.stall_max, lifted.has_value()});
  throttled.state = std::move(step.next);
  switch (step.action) {
    case policy::ThrottleAction::lift: return lift(throttled, step.stalled);
    case policy::ThrottleAction::restore:
      log_.write(exports::LogLevel::info, exports::LogLine("memory-high-restored")
                                              .field("cgroup", throttled.wanted.path)
                                              .field("from", *lifted)
                                              .field("to", throttled.wanted.value));
      writer_.end_lift(cgroup, now);
      restart(throttled);
      return true;
    case policy::ThrottleAction::keep: break;
  }
  const bool recovered =
      !throttled.state.stalled_since && !std::exchange(throttled.not_lifted, {}).empty();
  if (!lifted && policy::is_idle(throttled.state, now)) wait_for_event(throttled, now);
  return recovered;
}

void MemoryHighController::restart(Throttled& throttled) {
  const auto last = throttled.state.last;
  throttled.state = {};
  throttled.state.last = last;
}

// What cannot be armed is read again instead.
void MemoryHighController::wait_for_event(Throttled& throttled, MonotonicTime now) {
  if (!reader_->arm(throttled.wanted.cgroup)) {
    throttled.next_reading = now + kReadEvery;
    return;
  }
  throttled.state = {};
  throttled.next_reading.reset();
}

bool MemoryHighController::lift(Throttled& throttled, Duration stalled) {
  const CgroupId cgroup = throttled.wanted.cgroup;
  const Bytes from = writer_.lifted(cgroup).value_or(writer_.present(cgroup).value_or(Bytes{}));
  const auto raised = raise(throttled, from, stalled);
  if (!raised && !throttled.not_lifted.empty()) return false;
  exports::LogLine line(raised ? "memory-high-lifted" : "memory-high-not-lifted");
  line.field("cgroup", throttled.wanted.path).field("stalled_us", stalled).field("from", from);
  if (raised) {
    ++lifts_;
    restart(throttled);
    throttled.not_lifted.clear();
    line.field("to", *raised);
  } else {
    throttled.not_lifted = raised.error().text();
    line.field("problem", throttled.not_lifted);
  }
  log_.write(exports::LogLevel::warning, line);
  return true;
}

Result<Bytes> MemoryHighController::raise(const Throttled& throttled, Bytes from,
                                          Duration stalled) {
  const auto grants = grants_of_lifts();
  const auto room = TRY(
      headroom_.of_cgroup(throttled.wanted.path, throttled.wanted.cgroup, rule_.reserve, grants));
  const auto high = policy::lifted_high(room, from);
  if (!high) {
    return error("the node or a cgroup above it has no headroom for it: " +
                 exports::amount_text(room.headroom.count));
  }
  const CgroupId cgroup = throttled.wanted.cgroup;
  if (const auto original = writer_.original(cgroup); original && *original <= from) {
    return error("the value before is not higher: " + exports::amount_text(original->count));
  }
  TRY(writer_.lift(cgroup, *high,
                   fmt::format("lifted: no progress for {} at {}", brief(stalled), from.count)));
  return writer_.lifted(cgroup).value_or(*high);
}

std::vector<LiftGrant> MemoryHighController::grants_of_lifts() const {
  std::vector<LiftGrant> grants;
  for (const auto& [cgroup, each] : throttled_) {
    const auto lifted = writer_.lifted(cgroup);
    if (!lifted) continue;
    // With an unknown usage the whole lift counts.
    const Bytes used = each.state.last ? each.state.last->usage : each.wanted.value;
    grants.push_back({each.wanted.path, std::max(*lifted - used, Bytes{})});
  }
  return grants;
}

std::optional<ReserveOutcome> MemoryHighController::outcome(CgroupId cgroup) const {
  if (const auto found = unwatched_.find(cgroup); found != unwatched_.end()) return found->second;
  const ReserveOutcome* written = writer_.outcome(cgroup);
  if (written == nullptr) return std::nullopt;
  ReserveOutcome outcome = *written;
  const auto throttled = throttled_.find(cgroup);
  if (throttled != throttled_.end() && !throttled->second.not_lifted.empty()) {
    outcome.reason = "no progress, and not lifted: " + throttled->second.not_lifted;
  }
  return outcome;
}

}  // namespace forestall::agent
