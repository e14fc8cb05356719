// SPDX-License-Identifier: Apache-2.0
#include "kernel/memory_high.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "kernel/amount_setting.h"
#include "kernel/process_ref.h"

namespace forestall::kernel {
namespace {

// One write of a memory.high this far below usage takes about a second with slow swap.
constexpr Bytes kLowerStep = mib(32);
// Usage stays this far above a memory.high that was just written: nothing can be reclaimed.
constexpr Bytes kUnreclaimable = mib(4);

Bytes in_pages(Bytes value) {
  const Bytes page{::sysconf(_SC_PAGESIZE)};
  return {value.count / page.count * page.count};
}

}  // namespace

MemoryHigh::MemoryHigh(const SettingRecords& records, const CgroupDir& cgroup, UniqueFd file,
                       std::optional<Bytes> original, ProcessId self)
    : records_(&records),
      cgroup_(cgroup.id()),
      path_(cgroup.path()),
      file_(std::move(file)),
      name_(path_ + "/memory.high"),
      original_(original),
      self_(self) {}

Result<MemoryHigh> MemoryHigh::open(const CgroupDir& cgroup, const SettingRecords& records) {
  UniqueFd file = TRY(cgroup.open_file("memory.high", O_RDWR));
  const auto original = TRY(read_amount(file.get(), cgroup.path() + "/memory.high"));
  const auto self = TRY(read_process_id(::getpid()));
  return MemoryHigh(records, cgroup, std::move(file), original, self);
}

// EBUSY: another holder has a record of this setting: a running process, or another object of this
// one, whose original a record of ours would replace.
Result<void> MemoryHigh::record(const std::optional<Bytes>& before, Bytes value) const {
  const SettingRecords::SavedSetting ours{cgroup_, path_,
                                          to_string(AmountRecord{original_, before, value, self_})};
  if (ours_) return records_->write(ours);
  return records_->claim(ours, [](std::string_view text) {
    const auto present = parse_amount_record(text);
    return present && owner_is_running(*present);
  });
}

MemoryHigh::~MemoryHigh() {
  // A destructor cannot report an error. A failure leaves the record, and the next start retries.
  if (file_) static_cast<void>(restore());
}

Result<std::optional<Bytes>> MemoryHigh::read() const {
  return read_amount(file_.get(), name_);
}

Result<void> MemoryHigh::check_is(const std::optional<Bytes>& expected) const {
  if (TRY(read()) == expected) return {};
  return Error{EBUSY, fmt::format("{} was changed by another process", name_)};
}

Result<void> MemoryHigh::set(Bytes value) {
  const Bytes rounded = in_pages(value);
  if (original_ && *original_ <= rounded) return Error{EPERM, fmt::format("raise {}", name_)};
  return write(rounded);
}

Result<void> MemoryHigh::raise(const CgroupDir& cgroup, Bytes value) {
  const Bytes rounded = in_pages(value);
  if (!original_ || *original_ >= rounded) return Error{EPERM, fmt::format("lower {}", name_)};
  watch_usage(cgroup);
  return write(rounded);
}

// Without the file a value is restored by one write.
void MemoryHigh::watch_usage(const CgroupDir& cgroup) {
  auto usage = cgroup.open_file("memory.current", O_RDONLY);
  if (usage) usage_ = std::move(usage).value();
}

Result<void> MemoryHigh::write(Bytes rounded) {
  const auto before = ours_ ? ours_ : original_;
  TRY(check_is(before));
  TRY(record(before, rounded));
  // Another setting may have ended before the record, and `before` is its value then.
  auto written = check_is(before);
  if (written) written = write_amount(file_.get(), rounded, name_);
  if (!written) {
    // Nothing was set, so the record would only keep others away.
    if (!ours_) records_->drop(cgroup_);
    return written;
  }
  ours_ = rounded;
  return {};
}

Result<void> MemoryHigh::restore(MonotonicTime end) {
  if (!ours_) return {};
  if (usage_ && original_ && *original_ < *ours_) TRY(lower(end));
  const AmountRecord record{original_, ours_, ours_, self_};
  const auto undone = undo_amount(file_.get(), record, name_);
  if (!undone && undone.error().code != ENODEV) return undone.error();
  records_->drop(cgroup_);
  ours_.reset();
  return {};
}

// Until the original can be written at once: usage is near it, or a step did not lower usage. The
// kernel ends a write after 16 rounds that reclaim nothing (mm/memcontrol.c memory_high_write), but
// goes on while a cgroup takes back what is reclaimed.
Result<void> MemoryHigh::lower(MonotonicTime end) {
  for (bool is_lower = false;; is_lower = true) {
    const auto present = read();
    // Removed, or changed by another process: nothing is to be written.
    if (!present || *present != ours_) return {};
    const auto usage = TRY(read_amount(usage_.get(), path_ + "/memory.current"));
    if (!usage || *usage - kLowerStep <= *original_) return {};
    if (is_lower && *usage > *ours_ + kUnreclaimable) return {};
    if (SystemClock().now() >= end) {
      return Error{EAGAIN, fmt::format("{} is being lowered in steps", name_)};
    }
    TRY(write(in_pages(std::min(*ours_, *usage - kLowerStep))));
  }
}

Result<void> MemoryHigh::undo_leftover(const CgroupDir& cgroup, const SettingRecords& records,
                                       MonotonicTime end) {
  const auto text = TRY(records.read(cgroup.id()));
  if (!text) return {};
  const auto record = TRY(parse_amount_record(*text));
  if (owner_is_running(record)) return {};
  auto left = TRY(open(cgroup, records));
  const auto present = std::exchange(left.original_, record.original);
  if (present != record.old_value && present != record.new_value) {
    records.drop(cgroup.id());
    return {};
  }
  if (present) {
    left.ours_ = present;
    left.watch_usage(cgroup);
    return left.restore(end);
  }
  TRY(write_amount(left.file_.get(), record.original, left.name_));
  records.drop(cgroup.id());
  return {};
}

}  // namespace forestall::kernel
