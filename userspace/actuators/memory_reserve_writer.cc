// SPDX-License-Identifier: Apache-2.0
#include "actuators/memory_reserve_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <tuple>
#include <utility>

#include "kernel/process_ref.h"

namespace forestall::actuators {
namespace {

using kernel::AmountRecord;

std::size_t depth_of(const std::string& path) {
  return static_cast<std::size_t>(std::ranges::count(path, '/'));
}

std::string name_of(const std::string& path, MemoryQosFile file) {
  return path + "/" + to_string(file);
}

Result<UniqueFd> open_amount(const kernel::CgroupTree& tree, const std::string& path,
                             CgroupId cgroup, MemoryQosFile file) {
  const auto opened = TRY(tree.open(path));
  if (opened.id() != cgroup) return Error{ENODEV, path + " was removed"};
  return opened.open_file(to_string(file), O_RDWR);
}

}  // namespace

MemoryReserveWriter::~MemoryReserveWriter() {
  // A destructor cannot report an error. A failure leaves the record, and the next start retries.
  apply({}, MonotonicTime::max());
}

const kernel::SettingRecords& MemoryReserveWriter::records_of(MemoryQosFile file) const {
  return file == MemoryQosFile::min ? records_.min : records_.low;
}

std::vector<std::string> MemoryReserveWriter::adopt(MonotonicTime now) {
  adopted_ = now;
  return adopt_all();
}

std::vector<std::string> MemoryReserveWriter::adopt_all() {
  std::vector<std::string> notes;
  for (const MemoryQosFile file : {MemoryQosFile::min, MemoryQosFile::low}) {
    const auto left = records_of(file).all();
    if (!left) {
      notes.push_back(fmt::format("{} not adopted: {}", to_string(file), left.error().text()));
      continue;
    }
    for (const std::string& each : left->unreadable) {
      notes.push_back(fmt::format("{} not adopted: {}", to_string(file), each));
    }
    for (const auto& each : left->records) {
      if (applied_.contains({each.cgroup, file})) continue;
      const auto taken = adopt_one(file, each);
      if (!taken && !kernel::is_removed(taken.error())) {
        notes.push_back(
            fmt::format("{}: not adopted: {}", name_of(each.path, file), taken.error().text()));
      } else if (!taken || !*taken) {
        records_of(file).drop(each.cgroup);
      }
    }
  }
  has_unadopted_ = !notes.empty();
  return notes;
}

// False: nothing of the record is left in the file.
Result<bool> MemoryReserveWriter::adopt_one(MemoryQosFile file,
                                            const kernel::SettingRecords::SavedSetting& left) {
  AmountRecord record = TRY(kernel::parse_amount_record(left.text));
  const ProcessId self = TRY(kernel::read_process_id(::getpid()));
  if (record.owner != self && kernel::owner_is_running(record)) {
    return Error{EBUSY, "it is set by another agent"};
  }
  const UniqueFd opened = TRY(open_amount(tree_, left.path, left.cgroup, file));
  const auto present = TRY(kernel::read_amount(opened.get(), name_of(left.path, file)));
  if (present == record.original) return false;
  Applied adopted{left.path, record.original, present};
  adopted.is_lost = present != record.new_value && present != record.old_value;
  adopted.is_adopted = !adopted.is_lost;
  if (adopted.is_adopted) {
    record.owner = self;
    TRY(records_of(file).write({left.cgroup, left.path, to_string(record)}));
  }
  const bool keeps_record = adopted.is_adopted;
  applied_.insert_or_assign({left.cgroup, file}, std::move(adopted));
  return keeps_record;
}

void MemoryReserveWriter::apply(const std::vector<MemoryReserve>& wanted, MonotonicTime now,
                                bool facts_missing) {
  outcomes_.clear();
  not_restored_.clear();
  if (has_unadopted_) std::ignore = adopt_all();  // write() reports what fails again
  std::map<Key, MemoryReserve> by_key;
  for (const MemoryReserve& each : wanted) by_key.insert({{each.cgroup, each.file}, each});
  const bool keeps_adopted = facts_missing && now - adopted_ < kAdoptionGrace;
  const auto carry_out = [&](const ReserveStep& step) {
    if (!step.wanted) return restore(step.key);
    auto done = write(*step.wanted, now);
    outcomes_[step.key] =
        done ? *std::move(done) : ReserveOutcome{MemoryQosState::failed, done.error().text()};
  };
  std::vector<ReserveStep> lowering = lowering_steps(by_key, keeps_adopted);
  std::ranges::stable_sort(lowering, std::ranges::greater(), &ReserveStep::depth);
  for (const ReserveStep& each : lowering) carry_out(each);
  std::vector<ReserveStep> raising;
  for (const auto& [key, each] : by_key) {
    if (!outcomes_.contains(key)) raising.push_back({key, each, depth_of(each.path)});
  }
  std::ranges::stable_sort(raising, std::ranges::less(), &ReserveStep::depth);
  for (ReserveStep& each : raising) {
    const auto present = applied_.find(each.key);
    const bool keeps = keeps_adopted && present != applied_.end() && present->second.is_adopted &&
                       present->second.value && *present->second.value > each.wanted->value;
    if (keeps) each.wanted->value = *present->second.value;
    carry_out(each);
    if (!keeps && present != applied_.end()) present->second.is_adopted = false;
  }
}

// What is not wanted any more, or lower than what is applied.
std::vector<MemoryReserveWriter::ReserveStep> MemoryReserveWriter::lowering_steps(
    const std::map<Key, MemoryReserve>& wanted, bool keeps_adopted) const {
  std::vector<ReserveStep> steps;
  for (const auto& [key, applied] : applied_) {
    if (keeps_adopted && applied.is_adopted) continue;
    const auto found = wanted.find(key);
    if (found == wanted.end()) {
      steps.push_back({key, std::nullopt, depth_of(applied.path)});
    } else if (!applied.value || found->second.value < *applied.value) {
      steps.push_back({key, found->second, depth_of(applied.path)});
    }
  }
  return steps;
}

void MemoryReserveWriter::restore(Key key) {
  const auto found = applied_.find(key);
  if (!found->second.is_lost) {
    if (const auto undone = undo(key, found->second);
        !undone && !kernel::is_removed(undone.error())) {
      not_restored_.push_back(
          {{found->second.path, key.first, key.second, found->second.original.value_or(Bytes{})},
           undone.error().text()});
      return;
    }
    records_of(key.second).drop(key.first);
  }
  applied_.erase(found);
}

Result<void> MemoryReserveWriter::undo(Key key, const Applied& applied) const {
  const UniqueFd file = TRY(open_amount(tree_, applied.path, key.first, key.second));
  return kernel::undo_amount(file.get(), {applied.original, applied.value, applied.value, {}},
                             name_of(applied.path, key.second));
}

Result<ReserveOutcome> MemoryReserveWriter::write(const MemoryReserve& wanted, MonotonicTime now) {
  const Key key{wanted.cgroup, wanted.file};
  const UniqueFd file = TRY(open_amount(tree_, wanted.path, wanted.cgroup, wanted.file));
  const auto present = TRY(kernel::read_amount(file.get(), name_of(wanted.path, wanted.file)));
  const auto found = applied_.find(key);
  if (found == applied_.end()) {
    auto left = left_by_record(wanted);
    return left ? *std::move(left) : write_first(wanted, file.get(), present);
  }
  Applied& applied = found->second;
  const ReserveOutcome written{MemoryQosState::written};
  if (applied.is_lost) return leave(applied, wanted);
  if (present == applied.value) {
    if (applied.value == wanted.value) return written;
  } else if (present == applied.original) {
    if (!may_rewrite(applied, now)) {
      return ReserveOutcome{MemoryQosState::left,
                            fmt::format("another process resets it: the agent wrote it again {} "
                                        "times in an hour",
                                        kRewritesMax)};
    }
  } else {
    return leave(applied, wanted);
  }
  const bool was_reset = present != applied.value;
  TRY(put(wanted, file.get(), applied.original, present));
  if (was_reset) {
    applied.rewrites.push_back(now);
    ++rewrites_;
  }
  applied.value = wanted.value;
  return written;
}

std::optional<ReserveOutcome> MemoryReserveWriter::left_by_record(const MemoryReserve& wanted) {
  const auto record = records_of(wanted.file).read(wanted.cgroup);
  if (record && !*record) return std::nullopt;
  has_unadopted_ = true;
  std::string reason = "its record could not be taken over";
  if (!record) reason += ": " + record.error().text();
  return ReserveOutcome{MemoryQosState::left, std::move(reason)};
}

Result<ReserveOutcome> MemoryReserveWriter::write_first(const MemoryReserve& wanted, int file,
                                                        const std::optional<Bytes>& present) {
  if (present == wanted.value) return ReserveOutcome{MemoryQosState::equal};
  if (const auto done = put(wanted, file, present, present); !done) {
    // Nothing was written, so the record would restore nothing.
    records_of(wanted.file).drop(wanted.cgroup);
    return done.error();
  }
  applied_[{wanted.cgroup, wanted.file}] = {wanted.path, present, wanted.value};
  return ReserveOutcome{MemoryQosState::written};
}

// The record goes: the value of another process must not be replaced by the original either.
ReserveOutcome MemoryReserveWriter::leave(Applied& applied, const MemoryReserve& wanted) {
  if (!std::exchange(applied.is_lost, true)) records_of(wanted.file).drop(wanted.cgroup);
  applied.value.reset();
  return {MemoryQosState::left, "another process has written it since"};
}

Result<void> MemoryReserveWriter::put(const MemoryReserve& wanted, int file,
                                      const std::optional<Bytes>& original,
                                      const std::optional<Bytes>& present) const {
  const AmountRecord record{original, present, wanted.value,
                            TRY(kernel::read_process_id(::getpid()))};
  TRY(records_of(wanted.file).write({wanted.cgroup, wanted.path, to_string(record)}));
  return kernel::write_amount(file, wanted.value, name_of(wanted.path, wanted.file));
}

bool MemoryReserveWriter::may_rewrite(Applied& applied, MonotonicTime now) {
  while (!applied.rewrites.empty() && now - applied.rewrites.front() >= kRewritePeriod) {
    applied.rewrites.pop_front();
  }
  return applied.rewrites.size() < kRewritesMax;
}

const ReserveOutcome* MemoryReserveWriter::outcome(CgroupId cgroup, MemoryQosFile file) const {
  const auto found = outcomes_.find({cgroup, file});
  return found == outcomes_.end() ? nullptr : &found->second;
}

}  // namespace forestall::actuators
