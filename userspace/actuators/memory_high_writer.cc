// SPDX-License-Identifier: Apache-2.0
#include "actuators/memory_high_writer.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "actuators/rule_settings_writer.h"
#include "kernel/amount_setting.h"

namespace forestall::actuators {
namespace {

constexpr Bytes kHighStep = RuleSettingsWriter::kStep;
constexpr Duration kHighStepPause = RuleSettingsWriter::kStepPause;
constexpr const char* kInSteps = "usage is above it: it is lowered in steps";
// After a step that failed. Without a pause apply() would defer it again, and advance() fail again.
constexpr Duration kHighRetry = std::chrono::seconds(10);
constexpr const char* kTaken =
    "another setting of the agent has its memory.high, or another process writes it";
constexpr const char* kAnotherProcess = "another process has written it since";

Result<kernel::CgroupDir> open_wanted(const kernel::CgroupTree& tree, const MemoryReserve& wanted) {
  auto cgroup = TRY(tree.open(wanted.path));
  if (cgroup.id() != wanted.cgroup) return Error{ENODEV, wanted.path + " was removed"};
  return cgroup;
}

bool may_write_again(std::deque<MonotonicTime>& rewrites, MonotonicTime now) {
  while (!rewrites.empty() && now - rewrites.front() >= MemoryReserveWriter::kRewritePeriod) {
    rewrites.pop_front();
  }
  return rewrites.size() < MemoryReserveWriter::kRewritesMax;
}

}  // namespace

void MemoryHighWriter::apply(const std::vector<MemoryReserve>& wanted, MonotonicTime now) {
  restore_unwanted(wanted);
  for (const MemoryReserve& each : wanted) {
    HighSetting& setting = settings_.try_emplace(each.cgroup, HighSetting{each}).first->second;
    const bool is_higher = setting.wanted.value < each.value;
    setting.wanted = each;
    if (setting.lifted && *setting.lifted <= each.value) setting.lifted.reset();
    // Its next step is one of advance(), in its turn.
    if (setting.next_step && !is_higher) continue;
    bring(setting, now, Reclaim::no);
  }
}

void MemoryHighWriter::restore_unwanted(const std::vector<MemoryReserve>& wanted) {
  not_restored_.clear();
  for (auto each = settings_.begin(); each != settings_.end();) {
    HighSetting& setting = each->second;
    const bool is_wanted =
        std::ranges::find(wanted, each->first, &MemoryReserve::cgroup) != wanted.end();
    if (!is_wanted) {
      const auto undone = setting.high ? setting.high->restore() : Result<void>();
      if (undone) {
        each = settings_.erase(each);
        continue;
      }
      not_restored_.emplace_back(setting.wanted, undone.error().text());
    }
    ++each;
  }
}

bool MemoryHighWriter::advance(MonotonicTime now) {
  HighSetting* next = nullptr;
  for (auto& [cgroup, setting] : settings_) {
    if (!setting.next_step || now < *setting.next_step) continue;
    if (next == nullptr || *setting.next_step < *next->next_step) next = &setting;
  }
  if (next == nullptr) return false;
  const ReserveOutcome before = next->outcome;
  bring(*next, now, Reclaim::yes);
  const bool is_refused = next->outcome.state == MemoryQosState::failed || next->is_taken;
  if (is_refused) next->next_step = now + kHighRetry;
  return before != next->outcome;
}

std::optional<MonotonicTime> MemoryHighWriter::next_due() const {
  std::optional<MonotonicTime> due;
  for (const auto& [cgroup, setting] : settings_) {
    if (setting.next_step) due = std::min(due.value_or(*setting.next_step), *setting.next_step);
  }
  return due;
}

std::optional<MonotonicTime> MemoryHighWriter::next_step(CgroupId cgroup) const {
  const auto found = settings_.find(cgroup);
  return found == settings_.end() ? std::nullopt : found->second.next_step;
}

void MemoryHighWriter::bring(HighSetting& setting, MonotonicTime now, Reclaim reclaim) {
  setting.next_step.reset();
  setting.is_taken = false;
  auto done = write(setting, now, reclaim);
  setting.outcome =
      done ? *std::move(done) : ReserveOutcome{MemoryQosState::failed, done.error().text()};
}

Result<ReserveOutcome> MemoryHighWriter::write(HighSetting& setting, MonotonicTime now,
                                               Reclaim reclaim) {
  if (setting.is_lost) return ReserveOutcome{MemoryQosState::left, kAnotherProcess};
  if (!setting.high) TRY(open(setting));
  if (auto left = TRY(check_present(setting, now))) return *std::move(left);
  const Bytes target = setting.lifted.value_or(setting.wanted.value);
  const auto& original = setting.high->original();
  if (original && *original <= target) {
    TRY(setting.high->restore());
    if (setting.lifted) return ReserveOutcome{MemoryQosState::lifted, setting.lift_reason};
    if (*original == target) return ReserveOutcome{MemoryQosState::equal};
    return ReserveOutcome{MemoryQosState::left, "it is lower already"};
  }
  auto stepped = step_down(setting, now, reclaim);
  if (stepped || stepped.error().code != EBUSY) return stepped;
  setting.is_taken = true;
  return ReserveOutcome{MemoryQosState::left, kTaken};
}

Result<void> MemoryHighWriter::open(HighSetting& setting) const {
  const auto cgroup = TRY(open_wanted(tree_, setting.wanted));
  // Of a killed agent, if the start could not restore it: what the file has is not its original.
  TRY(kernel::MemoryHigh::undo_leftover(cgroup, records_, SystemClock().now()));
  setting.high.emplace(TRY(kernel::MemoryHigh::open(cgroup, records_)));
  return {};
}

Result<std::optional<ReserveOutcome>> MemoryHighWriter::check_present(HighSetting& setting,
                                                                      MonotonicTime now) {
  const auto present = TRY(setting.high->read());
  const auto& ours = setting.high->current();
  const auto& original = setting.high->original();
  if (present == (ours ? ours : original)) return std::optional<ReserveOutcome>();
  if (!ours) {  // another process may set it before the agent does
    setting.high.reset();
    TRY(open(setting));
    return std::optional<ReserveOutcome>();
  }
  if (present != original) {
    setting.is_lost = true;
    setting.lifted.reset();
    TRY(setting.high->restore());  // drops the record, and leaves the file
    return std::optional(ReserveOutcome{MemoryQosState::left, kAnotherProcess});
  }
  if (!may_write_again(setting.rewrites, now)) {
    return std::optional(
        ReserveOutcome{MemoryQosState::left,
                       fmt::format("another process resets it: the agent wrote it again {} times "
                                   "in an hour",
                                   MemoryReserveWriter::kRewritesMax)});
  }
  setting.rewrites.push_back(now);
  ++rewrites_;
  setting.high.reset();
  TRY(open(setting));
  return std::optional<ReserveOutcome>();
}

// REQUIRES: the target is below the original.
Result<ReserveOutcome> MemoryHighWriter::step_down(HighSetting& setting, MonotonicTime now,
                                                   Reclaim reclaim) const {
  kernel::MemoryHigh& high = *setting.high;
  const auto cgroup = TRY(open_wanted(tree_, setting.wanted));
  const Bytes usage = TRY(kernel::read_usage(cgroup));
  const Bytes target = setting.lifted.value_or(setting.wanted.value);
  const auto& ours = high.current();
  const bool raises = ours && *ours < target;
  const Bytes value = raises ? target : std::max(target, usage - kHighStep);
  // While it is being lowered, it does not follow a cgroup that grows.
  const auto& above = ours ? ours : high.original();
  const bool writes = raises || !above || value < *above;
  if (writes && value < usage && reclaim == Reclaim::no) {
    setting.next_step = now;
    return ReserveOutcome{MemoryQosState::left, kInSteps};
  }
  if (writes) TRY(high.set(value));
  if (high.current() == target) {
    if (setting.lifted) return ReserveOutcome{MemoryQosState::lifted, setting.lift_reason};
    return ReserveOutcome{MemoryQosState::written};
  }
  setting.next_step = now + kHighStepPause;
  return ReserveOutcome{MemoryQosState::left, kInSteps};
}

const ReserveOutcome* MemoryHighWriter::outcome(CgroupId cgroup) const {
  const auto found = settings_.find(cgroup);
  return found == settings_.end() ? nullptr : &found->second.outcome;
}

std::optional<Bytes> MemoryHighWriter::present(CgroupId cgroup) const {
  const auto found = settings_.find(cgroup);
  if (found == settings_.end() || !found->second.high) return std::nullopt;
  return found->second.high->current();
}

std::optional<Bytes> MemoryHighWriter::lifted(CgroupId cgroup) const {
  const auto found = settings_.find(cgroup);
  return found == settings_.end() ? std::nullopt : found->second.lifted;
}

std::optional<Bytes> MemoryHighWriter::original(CgroupId cgroup) const {
  const auto found = settings_.find(cgroup);
  if (found == settings_.end() || !found->second.high) return std::nullopt;
  return found->second.high->original();
}

Result<void> MemoryHighWriter::lift(CgroupId cgroup, Bytes high, std::string reason) {
  HighSetting& setting = settings_.at(cgroup);
  const auto& original = setting.high->original();
  if (original && *original <= high) {
    TRY(setting.high->restore());
  } else {
    TRY(setting.high->set(high));
  }
  // In whole pages; or the original, which is present again.
  setting.lifted = setting.high->current() ? setting.high->current() : original;
  setting.lift_reason = reason;
  setting.next_step.reset();
  setting.outcome = {MemoryQosState::lifted, std::move(reason)};
  return {};
}

void MemoryHighWriter::end_lift(CgroupId cgroup, MonotonicTime now) {
  HighSetting& setting = settings_.at(cgroup);
  setting.lifted.reset();
  bring(setting, now, Reclaim::no);
}

}  // namespace forestall::actuators
