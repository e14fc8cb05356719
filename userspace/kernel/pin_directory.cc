// SPDX-License-Identifier: Apache-2.0
#include "kernel/pin_directory.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/printable.h"
#include "kernel/guard_succession.h"

namespace forestall::kernel {
namespace {

using Directory = std::unique_ptr<DIR, decltype([](DIR* directory) { ::closedir(directory); })>;

Result<void> require_own(int fd, const std::string& path) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) return errno_error("stat", path);
  if (found.st_uid != 0 && found.st_uid != ::geteuid()) {
    return error(fmt::format("{} belongs to uid {}; give it to uid {}, or set another --keep-guard",
                             path, found.st_uid, ::geteuid()));
  }
  if ((found.st_mode & 022) != 0) {
    return error(
        fmt::format("{} has mode {:04o}: other users can write to it; use chmod go-w, or set "
                    "another --keep-guard",
                    path, found.st_mode & 07777));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<PinDirectory>> PinDirectory::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd && (errno == ENOTDIR || errno == ELOOP)) {
    return error(path + " is a symbolic link or not a directory; set another --keep-guard");
  }
  if (!fd) return errno_error("open", path);
  struct statfs found {};
  if (::fstatfs(fd.get(), &found) != 0) return errno_error("statfs", path);
  if (found.f_type != BPF_FS_MAGIC) {
    return error(path + " is not on a bpffs; make it below a mount of one, as /sys/fs/bpf is");
  }
  TRY(require_own(fd.get(), path));
  return std::unique_ptr<PinDirectory>(new PinDirectory(path, std::move(fd)));
}

// By the descriptor that was checked, whatever the path leads to now.
std::string PinDirectory::place_of(const std::string& name) const {
  return fmt::format("/proc/self/fd/{}/{}", fd_.get(), name);
}

Result<std::vector<std::string>> PinDirectory::names() const {
  UniqueFd again(::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!again) return errno_error("open", path_);
  const Directory directory(::fdopendir(again.get()));
  if (!directory) return errno_error("fdopendir", path_);
  static_cast<void>(again.release());  // the directory owns it
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return errno_error("readdir", path_);
  std::ranges::sort(names);
  return names;
}

Result<std::vector<KeptObject>> PinDirectory::kept() {
  std::vector<KeptObject> objects;
  for (std::string& name : TRY(names())) {
    const auto foreign = [&](const std::string& why) {
      return error(
          fmt::format("{} contains {}, which {}; no pin in it is used: remove that, or set "
                      "another --keep-guard",
                      path_, printable(name), why));
    };
    if (!parse_guard_object(name)) return foreign("is not a pin of Forestall's guard");
    UniqueFd fd(bpf_obj_get(place_of(name).c_str()));
    if (!fd) return errno_error("open the pin", path_ + "/" + name);
    if (!is_guard_object(name, fd.get())) return foreign("is not the BPF object of that name");
    objects.push_back({std::move(name), std::move(fd)});
  }
  return objects;
}

Result<void> PinDirectory::keep(const std::string& name, int fd) {
  if (bpf_obj_pin(fd, place_of(name).c_str()) == 0) return {};
  return errno_error("pin", path_ + "/" + name);
}

Result<void> PinDirectory::drop(const std::string& name) {
  if (::unlinkat(fd_.get(), name.c_str(), 0) == 0 || errno == ENOENT) return {};
  return errno_error("remove", path_ + "/" + name);
}

UniqueFd PinDirectory::turn() const {
  return UniqueFd(bpf_obj_get(place_of(std::string(kTurnObject)).c_str()));
}

}  // namespace forestall::kernel
