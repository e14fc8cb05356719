// SPDX-License-Identifier: Apache-2.0
#include "kernel/setting_records.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>

#include "base/parse.h"
#include "base/priority_mutex.h"
#include "kernel/held_file.h"

namespace forestall::kernel {
namespace {

struct DirectoryDeleter {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

std::string name_of(CgroupId cgroup) {
  return std::to_string(cgroup.inode);
}

Result<std::string> boot_id() {
  constexpr const char* kFile = "/proc/sys/kernel/random/boot_id";
  const auto file = TRY(HeldFile::open(AT_FDCWD, kFile, kFile));
  std::string text;
  return std::string(trim(TRY(file.read(text))));
}

// The next line of `text`, which is removed from it with its end; nothing: it is cut.
std::optional<std::string> take_line(std::string_view& text) {
  const auto end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  std::string line(text.substr(0, end));
  text.remove_prefix(end + 1);
  return line;
}

Result<void> write_whole(int directory, const std::string& name, std::string_view text) {
  const UniqueFd fd(::openat(directory, name.c_str(),
                             O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return errno_error("open", name);
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return errno_error("write", name);
  }
  return {};
}

// One for all records: only threads of the agent that holds the instance lock of the run directory
// write there.
base::PriorityMutex& claim_mutex() {
  static base::PriorityMutex mutex;
  return mutex;
}

}  // namespace

Result<UniqueFd> SettingRecords::open_directory() const {
  UniqueFd fd(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return errno_error("open", directory_);
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) return errno_error("stat", directory_);
  if (found.st_uid != ::geteuid() || (found.st_mode & 022) != 0) {
    return error(
        fmt::format("{} belongs to uid {} and has mode {:04o}: other users can write to "
                    "it; remove it",
                    directory_, found.st_uid, found.st_mode & 07777));
  }
  return fd;
}

Result<void> SettingRecords::claim(
    const SavedSetting& record,
    const std::function<bool(std::string_view text)>& is_anothers) const {
  const std::lock_guard lock(claim_mutex());
  const auto present = TRY(read(record.cgroup));
  if (present && is_anothers(*present)) {
    return Error{EBUSY, fmt::format("{} is set by another part of this agent, or by another agent",
                                    record.path)};
  }
  return write(record);
}

Result<void> SettingRecords::write(const SavedSetting& record) const {
  if (directory_.empty()) return error("no run directory for the originals of settings");
  if (record.path.find('\n') != std::string::npos)
    return Error{EINVAL, "the path of the cgroup has a line break"};
  if (::mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST) {
    return errno_error("mkdir", directory_);
  }
  const UniqueFd directory = TRY(open_directory());
  const std::string name = name_of(record.cgroup);
  const std::string text = fmt::format("{}\n{}\n{}\n", TRY(boot_id()), record.path, record.text);
  // A crash leaves either the old record or the new one.
  TRY(write_whole(directory.get(), name + ".new", text));
  if (::renameat(directory.get(), (name + ".new").c_str(), directory.get(), name.c_str()) != 0) {
    return errno_error("rename", directory_ + "/" + name);
  }
  return {};
}

Result<std::optional<SettingRecords::SavedSetting>> SettingRecords::read_in(int directory,
                                                                            CgroupId cgroup) const {
  const std::string name = name_of(cgroup);
  const UniqueFd fd(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd && errno == ENOENT) return std::optional<SavedSetting>();
  if (!fd) return errno_error("open", directory_ + "/" + name);
  std::string buffer;
  std::string_view text = TRY(read_whole(fd.get(), buffer, name));
  const auto boot = take_line(text);
  auto path = take_line(text);
  auto record = take_line(text);
  if (boot != TRY(boot_id())) {
    ::unlinkat(directory, name.c_str(), 0);
    return std::optional<SavedSetting>();
  }
  if (!path || !record) return error(directory_ + "/" + name + " is cut; remove it");
  return std::optional<SavedSetting>({cgroup, *std::move(path), *std::move(record)});
}

Result<std::optional<std::string>> SettingRecords::read(CgroupId cgroup) const {
  const auto directory = open_directory();
  if (!directory.ok() && (directory_.empty() || directory.error().code == ENOENT)) {
    return std::optional<std::string>();
  }
  if (!directory.ok()) return directory.error();
  auto record = TRY(read_in(directory->get(), cgroup));
  if (!record) return std::optional<std::string>();
  return std::optional<std::string>(std::move(record->text));
}

void SettingRecords::drop(CgroupId cgroup) const {
  if (!directory_.empty()) ::unlink((directory_ + "/" + name_of(cgroup)).c_str());
}

Result<SettingRecords::Found> SettingRecords::all() const {
  Found found;
  if (directory_.empty()) return found;
  UniqueFd directory;
  if (auto opened = open_directory(); opened.ok()) {
    directory = std::move(*opened);
  } else if (opened.error().code == ENOENT) {
    return found;
  } else {
    return opened.error();
  }
  const std::unique_ptr<DIR, DirectoryDeleter> list(::opendir(directory_.c_str()));
  if (list == nullptr) return errno_error("opendir", directory_);
  while (const dirent* entry = ::readdir(list.get())) {
    const auto inode = parse_u64(entry->d_name);
    if (!inode) continue;
    auto record = read_in(directory.get(), CgroupId{*inode});
    if (!record) {
      found.unreadable.push_back(record.error().text());
    } else if (*record) {
      found.records.push_back(**std::move(record));
    }
  }
  return found;
}

}  // namespace forestall::kernel
