// SPDX-License-Identifier: Apache-2.0
#include "kernel/memory_high.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <limits>

#include "base/parse.h"
#include "kernel/held_file.h"
#include "kernel/memory_files.h"
#include "kernel/process_ref.h"
#include "kernel/setting_leftovers.h"

namespace forestall::kernel {
namespace {

std::string amount_text(const std::optional<Bytes>& amount) {
  return amount ? std::to_string(amount->count) : "max";
}

Result<std::optional<Bytes>> read_amount(int fd, std::string_view name) {
  std::string buffer;
  const auto value = parse_amount(TRY(read_whole(fd, buffer, name)));
  if (!value) return value.error().in(name);
  return *value;
}

Result<void> write_amount(int fd, const std::optional<Bytes>& amount, std::string_view name) {
  const auto text = amount_text(amount);
  if (::pwrite(fd, text.data(), text.size(), 0) < 0) {
    return errno_error(fmt::format("write \"{}\" to", text), name);
  }
  return {};
}

// Whether the process that wrote the record still runs. A zombie does not.
bool owner_is_running(const MemoryHighRecord& record) {
  return record.owner && is_running(*record.owner);
}

// Restores the original of `record` if the current value is still one of the record's.
Result<void> undo(int file, const MemoryHighRecord& record, std::string_view name) {
  const auto now = TRY(read_amount(file, name));
  if (now != record.old_value && now != record.new_value) return {};
  return write_amount(file, record.original, name);
}

}  // namespace

std::string to_string(const MemoryHighRecord& record) {
  auto text = fmt::format("{} {} {}", amount_text(record.original), amount_text(record.old_value),
                          amount_text(record.new_value));
  if (record.owner) text += fmt::format(" {} {}", record.owner->pid, record.owner->start_ticks);
  return text;
}

Result<MemoryHighRecord> parse_memory_high_record(std::string_view text) {
  auto rest = text;
  MemoryHighRecord record;
  for (auto* field : {&record.original, &record.old_value, &record.new_value}) {
    *field = TRY(parse_amount(next_word(rest)));
  }
  const auto malformed = [&] { return error(fmt::format("memory.high record \"{}\"", text)); };
  const auto pid_word = next_word(rest);
  if (pid_word.empty()) return record;
  const auto pid = parse_u64(pid_word);
  const auto ticks = parse_u64(next_word(rest));
  if (!pid || *pid == 0 || *pid > std::numeric_limits<pid_t>::max() || !ticks) return malformed();
  record.owner = ProcessId{static_cast<pid_t>(*pid), *ticks};
  if (!next_word(rest).empty()) return malformed();
  return record;
}

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
  const SettingRecords::SavedSetting ours{
      cgroup_, path_, to_string(MemoryHighRecord{original_, before, value, self_})};
  if (ours_) return records_->write(ours);
  return records_->claim(ours, [](std::string_view text) {
    const auto present = parse_memory_high_record(text);
    return present && owner_is_running(*present);
  });
}

MemoryHigh::~MemoryHigh() {
  // A destructor cannot report an error. A failure leaves the record, and the next start retries.
  if (file_) static_cast<void>(restore());
}

Result<void> MemoryHigh::set(Bytes value) {
  const Bytes page{::sysconf(_SC_PAGESIZE)};
  const Bytes rounded{value.count / page.count * page.count};
  if (original_ && *original_ <= rounded) return Error{EPERM, fmt::format("raise {}", name_)};
  const auto before = ours_ ? ours_ : original_;
  if (TRY(read_amount(file_.get(), name_)) != before) {
    return Error{EBUSY, fmt::format("{} was changed by another process", name_)};
  }
  TRY(record(before, rounded));
  if (auto written = write_amount(file_.get(), rounded, name_); !written) {
    // Nothing was set, so the record would only keep others away.
    if (!ours_) records_->drop(cgroup_);
    return written;
  }
  ours_ = rounded;
  return {};
}

Result<void> MemoryHigh::restore() {
  if (!ours_) return {};
  const MemoryHighRecord record{original_, ours_, ours_, self_};
  const auto undone = undo(file_.get(), record, name_);
  if (!undone && undone.error().code != ENODEV) return undone.error();
  records_->drop(cgroup_);
  ours_.reset();
  return {};
}

std::vector<std::string> restore_leftovers(const CgroupTree& tree, const SettingRecords& records,
                                           bool dry_run) {
  const auto restore = [&](const CgroupDir& cgroup,
                           const SettingRecords::SavedSetting& left) -> Result<std::string> {
    const auto record = TRY(parse_memory_high_record(left.text));
    if (owner_is_running(record)) return std::string();
    if (dry_run) return fmt::format("memory.high left as it is by a dry run (\"{}\")", left.text);
    const UniqueFd file = TRY(cgroup.open_file("memory.high", O_RDWR));
    TRY(undo(file.get(), record, left.path + "/memory.high"));
    records.drop(left.cgroup);
    return fmt::format("memory.high restored (\"{}\")", left.text);
  };
  return undo_leftovers(tree, records, restore, "memory.high not restored",
                        "memory.high not restored");
}

}  // namespace forestall::kernel
