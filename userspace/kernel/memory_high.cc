// SPDX-License-Identifier: Apache-2.0
#include "kernel/memory_high.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <limits>

#include "base/parse.h"
#include "kernel/held_file.h"
#include "kernel/memory_files.h"
#include "kernel/process_ref.h"

namespace forestall::kernel {
namespace {

constexpr std::array kAttributes{"user.forestall.memory_high", "trusted.forestall.memory_high"};

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

Result<void> write_record(int directory, const MemoryHighRecord& record, std::string_view name) {
  const auto text = to_string(record);
  for (const char* attribute : kAttributes) {
    if (::fsetxattr(directory, attribute, text.data(), text.size(), 0) == 0) return {};
  }
  return errno_error("record the original of", name);
}

void drop_record(int directory) {
  for (const char* attribute : kAttributes) ::fremovexattr(directory, attribute);
}

// The text of the record; nothing: there is none.
std::optional<std::string> read_record(int directory) {
  std::array<char, 128> text;
  for (const char* attribute : kAttributes) {
    const ssize_t size = ::fgetxattr(directory, attribute, text.data(), text.size());
    if (size >= 0) return std::string(text.data(), static_cast<std::size_t>(size));
  }
  return std::nullopt;
}

// Whether the process that wrote the record still runs. A zombie does not.
bool owner_lives(const MemoryHighRecord& record) {
  if (!record.owner) return false;
  const auto process = ProcessRef::open(record.owner->pid);
  return process && process->id() == *record.owner && !process->exited();
}

// Whether another running process has a record of this setting.
bool held_by_another(int directory, ProcessId self) {
  const auto text = read_record(directory);
  if (!text) return false;
  const auto record = parse_memory_high_record(*text);
  return record && record->owner != self && owner_lives(*record);
}

Result<UniqueFd> open_readable(const CgroupDir& cgroup) {
  return cgroup.open_file(".", O_RDONLY | O_DIRECTORY);
}

// Restores the original of `record` if the current value is still one of the record's.
Result<void> undo(int directory, int file, const MemoryHighRecord& record, std::string_view name) {
  const auto now = TRY(read_amount(file, name));
  if (now == record.old_value || now == record.new_value) {
    TRY(write_amount(file, record.original, name));
  }
  drop_record(directory);
  return {};
}

// Returns whether there was anything to undo; there is not if the owner still runs.
Result<bool> undo_leftover(const CgroupDir& cgroup, int directory, std::string_view text) {
  const auto record = TRY(parse_memory_high_record(text));
  if (owner_lives(record)) return false;
  const UniqueFd file = TRY(cgroup.open_file("memory.high", O_RDWR));
  TRY(undo(directory, file.get(), record, cgroup.path() + "/memory.high"));
  return true;
}

// Restores one cgroup and appends the result to `log`.
void restore_one(const CgroupDir& cgroup, std::vector<std::string>& log) {
  const auto directory = open_readable(cgroup);
  if (!directory) return;
  const auto text = read_record(directory->get());
  if (!text) return;
  const auto undone = undo_leftover(cgroup, directory->get(), *text);
  if (!undone) {
    log.push_back(
        fmt::format("{}: memory.high not restored: {}", cgroup.path(), undone.error().text()));
  } else if (*undone) {
    log.push_back(fmt::format("{}: memory.high restored (\"{}\")", cgroup.path(), *text));
  }
}

void restore_below(const CgroupTree& tree, const std::string& path, std::vector<std::string>& log) {
  const auto cgroup = tree.open(path);
  if (!cgroup) return;  // removed since it was listed
  restore_one(*cgroup, log);
  const auto children = cgroup->children();
  if (!children) return;
  for (const auto& name : *children) {
    restore_below(tree, path == "/" ? path + name : path + "/" + name, log);
  }
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

MemoryHigh::MemoryHigh(UniqueFd directory, UniqueFd file, std::string name,
                       std::optional<Bytes> original, ProcessId self)
    : directory_(std::move(directory)),
      file_(std::move(file)),
      name_(std::move(name)),
      original_(original),
      self_(self) {}

Result<MemoryHigh> MemoryHigh::open(const CgroupDir& cgroup) {
  auto name = cgroup.path() + "/memory.high";
  UniqueFd file = TRY(cgroup.open_file("memory.high", O_RDWR));
  UniqueFd directory = TRY(open_readable(cgroup));
  const auto original = TRY(read_amount(file.get(), name));
  const auto self = TRY(read_process_id(::getpid()));
  return MemoryHigh(std::move(directory), std::move(file), std::move(name), original, self);
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
  if (!ours_ && held_by_another(directory_.get(), self_)) {
    return Error{EBUSY, fmt::format("{} is set by another agent", name_)};
  }
  TRY(write_record(directory_.get(), {original_, before, rounded, self_}, name_));
  TRY(write_amount(file_.get(), rounded, name_));
  ours_ = rounded;
  return {};
}

Result<void> MemoryHigh::restore() {
  if (!ours_) return {};
  const MemoryHighRecord record{original_, ours_, ours_, self_};
  const auto undone = undo(directory_.get(), file_.get(), record, name_);
  if (!undone && undone.error().code != ENODEV) return undone.error();
  ours_.reset();
  return {};
}

std::vector<std::string> restore_leftovers(const CgroupTree& tree) {
  std::vector<std::string> log;
  if (tree.version() == CgroupVersion::v2) restore_below(tree, "/", log);
  return log;
}

}  // namespace forestall::kernel
