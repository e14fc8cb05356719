// SPDX-License-Identifier: Apache-2.0
#include "actuators/rule_settings_writer.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "kernel/memory_files.h"

namespace forestall::actuators {
namespace {

const char* file_of(RuleSetting::Kind kind) {
  return kind == RuleSetting::Kind::throttle ? "memory.high" : "cgroup.freeze";
}

bool is_of_same_file(const RuleSetting& one, const RuleSetting& other) {
  return one.kind == other.kind && one.cgroup == other.cgroup;
}

// Of the same file, whether it is in force in place of the other one.
bool outranks(const RuleSetting& one, const RuleSetting& other) {
  return one.high != other.high ? one.high < other.high : one.until > other.until;
}

std::vector<RuleSetting> in_force(const std::vector<RuleSetting>& requested) {
  std::vector<RuleSetting> chosen;
  for (const RuleSetting& each : requested) {
    const auto same = std::ranges::find_if(
        chosen, [&](const RuleSetting& other) { return is_of_same_file(each, other); });
    if (same == chosen.end()) {
      chosen.push_back(each);
    } else if (outranks(each, *same)) {
      *same = each;
    }
  }
  return chosen;
}

Duration pause_after(std::uint32_t failures) {
  Duration pause = RuleSettingsWriter::kFirstRetry;
  for (; failures > 1 && pause < RuleSettingsWriter::kLastRetry; --failures) pause *= 2;
  return std::min(pause, RuleSettingsWriter::kLastRetry);
}

}  // namespace

const RuleSetting* RuleSettingsWriter::wanted_of(const RuleSetting& applied) const {
  const auto found = std::ranges::find_if(
      wanted_, [&](const RuleSetting& each) { return is_of_same_file(each, applied); });
  return found == wanted_.end() || has_failed(*found) ? nullptr : &*found;
}

bool RuleSettingsWriter::has_failed(const RuleSetting& setting) const {
  return std::ranges::any_of(failed_, [&](const RuleSetting& each) {
    return is_of_same_file(each, setting) && each.high == setting.high;
  });
}

std::size_t RuleSettingsWriter::not_undone() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(applied_, [](const Applied& each) { return each.failures > 0; }));
}

std::optional<MonotonicTime> RuleSettingsWriter::advance(MonotonicTime now) {
  std::erase_if(requested_, [&](const RuleSetting& each) { return each.until <= now; });
  wanted_ = in_force(requested_);
  std::erase_if(failed_, [&](const RuleSetting& each) {
    return std::ranges::none_of(
        wanted_, [&](const RuleSetting& wanted) { return is_of_same_file(wanted, each); });
  });
  undo_what_is_over(now);
  for (const RuleSetting& each : wanted_) make(each);
  take_step(now);
  return next_due(now);
}

void RuleSettingsWriter::undo_what_is_over(MonotonicTime now) {
  std::erase_if(applied_, [&](Applied& each) {
    if (wanted_of(each.setting) != nullptr) return false;
    if (each.failures > 0 && now < each.retry) return false;
    return undo(each, now);
  });
}

bool RuleSettingsWriter::undo(Applied& applied, MonotonicTime now) {
  auto* throttling = std::get_if<Throttling>(&applied.made);
  const auto undone = throttling != nullptr ? throttling->high.restore()
                                            : std::get<kernel::CgroupFreeze>(applied.made).thaw();
  RuleSettingResult result;
  result.path = applied.setting.path;
  result.what = file_of(applied.setting.kind);
  if (undone) {
    result.attempts = applied.failures + 1;
    if (applied.failures > 0) report_(std::move(result));
    return true;
  }
  ++applied.failures;
  applied.retry = now + pause_after(applied.failures);
  result.retries = true;
  result.failure = undone.error();
  if (applied.failures == 1) report_(std::move(result));
  return false;
}

// What is applied of the same file already gets the new value and time.
void RuleSettingsWriter::make(const RuleSetting& wanted) {
  if (has_failed(wanted)) return;
  const auto same = std::ranges::find_if(
      applied_, [&](const Applied& each) { return is_of_same_file(each.setting, wanted); });
  if (same != applied_.end()) {
    auto* throttling = std::get_if<Throttling>(&same->made);
    if (throttling != nullptr && wanted.high != same->setting.high) {
      throttling->is_down = false;
      throttling->next_step = {};
    }
    same->setting = wanted;
    same->failures = 0;
    return;
  }
  auto applied = made(wanted);
  if (applied) {
    applied_.push_back(std::move(applied).value());
  } else {
    failed(wanted, applied.error());
  }
}

Result<RuleSettingsWriter::Applied> RuleSettingsWriter::made(const RuleSetting& wanted) const {
  const auto cgroup = TRY(tree_.open(wanted.path));
  if (cgroup.id() != wanted.cgroup) return Error{ENODEV, wanted.path + " was removed"};
  if (wanted.kind == RuleSetting::Kind::freeze) {
    return Applied{wanted, TRY(kernel::CgroupFreeze::freeze(cgroup, records_.frozen))};
  }
  auto high = TRY(kernel::MemoryHigh::open(cgroup, records_.high));
  auto usage =
      TRY(kernel::HeldFile::open(cgroup.fd(), "memory.current", wanted.path + "/memory.current"));
  return Applied{wanted, Throttling{std::move(high), std::move(usage)}};
}

void RuleSettingsWriter::take_step(MonotonicTime now) {
  const auto next = std::ranges::find_if(applied_, [&](const Applied& each) {
    const auto* throttling = std::get_if<Throttling>(&each.made);
    return throttling != nullptr && !throttling->is_down && throttling->next_step <= now &&
           wanted_of(each.setting) != nullptr;
  });
  if (next == applied_.end()) return;
  const auto done = step_down(next->setting, std::get<Throttling>(next->made), now);
  applied_.splice(applied_.end(), applied_, next);
  if (!done) failed(next->setting, done.error());  // and undone by the next advance()
}

Result<void> RuleSettingsWriter::step_down(const RuleSetting& wanted, Throttling& made,
                                           MonotonicTime now) {
  const auto text = TRY(made.usage.read(buffer_));
  const auto usage = TRY(kernel::parse_amount(text));
  if (!usage) return error(made.usage.name() + " has no number");
  const Bytes value = std::max(wanted.high, *usage - kStep);
  // What is written stays below this.
  const auto& ours = made.high.current();
  const bool lowers = ours && wanted.high < *ours;
  const auto& above = lowers ? ours : made.high.original();
  if (above && wanted.high < *above && value >= *above) {
    made.next_step = now + kStepPause;
    return lowers && value == *above ? made.high.set(value) : Result<void>();
  }
  TRY(made.high.set(value));
  made.is_down = value == wanted.high;
  return {};
}

// Nothing: no time is known. A throttle that could not be set is to be undone now.
std::optional<MonotonicTime> RuleSettingsWriter::next_due(MonotonicTime now) const {
  std::optional<MonotonicTime> due;
  const auto add = [&](MonotonicTime time) { due = due ? std::min(*due, time) : time; };
  for (const Applied& each : applied_) {
    const auto* throttling = std::get_if<Throttling>(&each.made);
    if (wanted_of(each.setting) == nullptr) {
      add(each.failures > 0 ? each.retry : now);
    } else {
      add(each.setting.until);
      if (throttling != nullptr && !throttling->is_down) {
        add(std::max(now, throttling->next_step));
      }
    }
  }
  return due;
}

MonotonicTime RuleSettingsWriter::next_undo() const {
  MonotonicTime next = MonotonicTime::max();
  for (const Applied& each : applied_) {
    next = std::min(next, each.failures > 0 ? each.retry : each.setting.until);
  }
  return next;
}

void RuleSettingsWriter::failed(const RuleSetting& setting, const Error& failure) {
  failed_.push_back(setting);
  if (kernel::is_removed(failure)) return;
  RuleSettingResult result;
  result.path = setting.path;
  result.what = file_of(setting.kind);
  result.failure = failure;
  report_(std::move(result));
}

}  // namespace forestall::actuators
