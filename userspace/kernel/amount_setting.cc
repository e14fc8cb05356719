// SPDX-License-Identifier: Apache-2.0
#include "kernel/amount_setting.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <limits>

#include "base/parse.h"
#include "base/unique_fd.h"
#include "kernel/held_file.h"
#include "kernel/memory_files.h"
#include "kernel/memory_high.h"
#include "kernel/process_ref.h"
#include "kernel/setting_leftovers.h"

namespace forestall::kernel {
namespace {

constexpr std::string_view kHighFile = "memory.high";
// For values of memory.high that are lowered in steps, of all cgroups together.
constexpr Duration kLeftoverTime = std::chrono::seconds(1);

}  // namespace
std::string to_string(const AmountRecord& record) {
  auto text = fmt::format("{} {} {}", amount_text(record.original), amount_text(record.old_value),
                          amount_text(record.new_value));
  if (record.owner) text += fmt::format(" {} {}", record.owner->pid, record.owner->start_ticks);
  return text;
}

Result<AmountRecord> parse_amount_record(std::string_view text) {
  auto rest = text;
  AmountRecord record;
  for (auto* field : {&record.original, &record.old_value, &record.new_value}) {
    *field = TRY(parse_amount(next_word(rest)));
  }
  const auto malformed = [&] { return error(fmt::format("record \"{}\" of a setting", text)); };
  const auto pid_word = next_word(rest);
  if (pid_word.empty()) return record;
  const auto pid = parse_u64(pid_word);
  const auto ticks = parse_u64(next_word(rest));
  if (!pid || *pid == 0 || *pid > std::numeric_limits<pid_t>::max() || !ticks) return malformed();
  record.owner = ProcessId{static_cast<pid_t>(*pid), *ticks};
  if (!next_word(rest).empty()) return malformed();
  return record;
}

bool owner_is_running(const AmountRecord& record) {
  return record.owner && is_running(*record.owner);
}

std::string amount_text(const std::optional<Bytes>& amount) {
  return amount ? std::to_string(amount->count) : "max";
}

Result<std::optional<Bytes>> read_amount(int fd, std::string_view name) {
  std::string buffer;
  const auto value = parse_amount(TRY(read_whole(fd, buffer, name)));
  if (!value) return value.error().in(name);
  return *value;
}

Result<std::optional<Bytes>> read_amount(const CgroupDir& cgroup, const char* file) {
  const auto text = TRY(cgroup.read(file));
  const auto value = parse_amount(text);
  if (!value) return value.error().in(cgroup.path() + "/" + file);
  return *value;
}

Result<Bytes> read_usage(const CgroupDir& cgroup) {
  const auto usage = TRY(read_amount(cgroup, "memory.current"));
  if (!usage) return error(cgroup.path() + "/memory.current has no number");
  return *usage;
}

Result<void> write_amount(int fd, const std::optional<Bytes>& amount, std::string_view name) {
  const auto text = amount_text(amount);
  if (::pwrite(fd, text.data(), text.size(), 0) < 0) {
    return errno_error(fmt::format("write \"{}\" to", text), name);
  }
  return {};
}

Result<void> undo_amount(int fd, const AmountRecord& record, std::string_view name) {
  const auto now = TRY(read_amount(fd, name));
  if (now != record.old_value && now != record.new_value) return {};
  return write_amount(fd, record.original, name);
}

std::vector<std::string> restore_leftovers(const CgroupTree& tree, const SettingRecords& records,
                                           bool dry_run, const char* file) {
  const MonotonicTime end = SystemClock().now() + kLeftoverTime;
  const auto restore = [&](const CgroupDir& cgroup,
                           const SettingRecords::SavedSetting& left) -> Result<std::string> {
    const auto record = TRY(parse_amount_record(left.text));
    if (owner_is_running(record)) return std::string();
    if (dry_run) return fmt::format("{} left as it is by a dry run (\"{}\")", file, left.text);
    if (std::string_view(file) == kHighFile) {
      TRY(MemoryHigh::undo_leftover(cgroup, records, end));
    } else {
      const UniqueFd opened = TRY(cgroup.open_file(file, O_RDWR));
      TRY(undo_amount(opened.get(), record, left.path + "/" + file));
      records.drop(left.cgroup);
    }
    return fmt::format("{} restored (\"{}\")", file, left.text);
  };
  const std::string failed = fmt::format("{} not restored", file);
  return undo_leftovers(tree, records, restore, failed, failed);
}

}  // namespace forestall::kernel
