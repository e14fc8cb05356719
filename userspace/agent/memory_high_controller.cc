// SPDX-License-Identifier: Apache-2.0
#include "agent/memory_high_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "exports/amount_text.h"
#include "exports/log_line.h"
#include "kernel/amount_setting.h"
#include "kernel/memory_files.h"
#include "model/duration.h"
#include "model/workload.h"

namespace forestall::agent {
namespace {

using actuators::MemoryReserve;
using actuators::ReserveOutcome;

// The least of memory.max and memory.high; nothing: it has neither.
Result<std::optional<Bytes>> limit_of(const kernel::CgroupDir& cgroup) {
  const auto max = TRY(kernel::read_amount(cgroup, "memory.max"));
  const auto high = TRY(kernel::read_amount(cgroup, "memory.high"));
  return max && high ? std::min(max, high) : std::max(max, high);
}

// What a cgroup has left below its limit; nothing: it has none. The kernel reclaims inactive file
// pages before a charge fails, so a cgroup that is full of page cache has room.
Result<std::optional<Bytes>> left_below_limit(const kernel::CgroupDir& cgroup) {
  const auto limit = TRY(limit_of(cgroup));
  if (!limit) return std::optional<Bytes>();
  const Bytes usage = TRY(kernel::read_usage(cgroup));
  const auto text = TRY(cgroup.read("memory.stat"));
  const auto stat = TRY(kernel::parse_memory_stat(text));
  if (!stat.inactive_file) return error(cgroup.path() + "/memory.stat has no inactive_file");
  return std::optional(*limit - working_set(usage, *stat.inactive_file));
}

bool is_below(std::string_view path, std::string_view above) {
  return path.starts_with(above) && path.substr(above.size()).starts_with('/');
}

}  // namespace

Result<std::unique_ptr<MemoryHighController>> MemoryHighController::create(
    const kernel::CgroupTree& tree, const kernel::SettingRecords& records, exports::Log& log,
    const std::string& proc) {
  auto reader = TRY(sources::ThrottleReader::create(tree));
  auto node = TRY(sources::NodeReader::open(tree, proc));
  return std::unique_ptr<MemoryHighController>(
      new MemoryHighController(tree, records, log, std::move(reader), std::move(node)));
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
  const auto room = TRY(room_of(throttled));
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

Result<policy::LiftRoom> MemoryHighController::room_of(const Throttled& throttled) {
  const auto cgroup = TRY(tree_.open(throttled.wanted.path));
  const Bytes usage = TRY(kernel::read_usage(cgroup));
  const auto max = TRY(kernel::read_amount(cgroup, "memory.max"));
  Bytes headroom = TRY(headroom_of_node());
  if (const auto above = TRY(headroom_above(throttled.wanted.path))) {
    headroom = std::min(headroom, *above);
  }
  return policy::LiftRoom{usage, max, headroom};
}

Result<Bytes> MemoryHighController::headroom_of_node() {
  if (!rule_.reserve) return error("the memory of the node is unknown");
  std::vector<SourceNote> problems;
  const NodeSample node = node_.read(buffer_, problems);
  const auto free = policy::lift_headroom(node, *rule_.reserve);
  if (!free && !problems.empty()) return error(problems[0].subject + ": " + problems[0].problem);
  if (!free) return error("the available memory of the node is unknown");
  return *free - granted_below("");
}

Result<std::optional<Bytes>> MemoryHighController::headroom_above(std::string_view path) const {
  std::optional<Bytes> least;
  for (auto end = path.rfind('/'); end != std::string_view::npos && end > 0;
       end = path.rfind('/')) {
    path = path.substr(0, end);
    const auto cgroup = TRY(tree_.open(path));
    const auto left = TRY(left_below_limit(cgroup));
    if (!left) continue;
    const Bytes free = *left - granted_below(path);
    least = std::min(least.value_or(free), free);
  }
  return least;
}

Bytes MemoryHighController::granted_below(std::string_view path) const {
  Bytes granted;
  for (const auto& [cgroup, each] : throttled_) {
    const auto lifted = writer_.lifted(cgroup);
    if (!lifted || !is_below(each.wanted.path, path)) continue;
    // With an unknown usage the whole lift counts.
    const Bytes used = each.state.last ? each.state.last->usage : each.wanted.value;
    granted += std::max(*lifted - used, Bytes{});
  }
  return granted;
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
