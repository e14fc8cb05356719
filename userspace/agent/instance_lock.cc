// SPDX-License-Identifier: Apache-2.0
#include "agent/instance_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/lock_file.h"

namespace forestall::agent {
namespace {

// Another user that can write here can replace the lock and the sockets, whatever their modes.
Result<void> require_own(int directory, const std::string& path) {
  struct stat found {};
  if (::fstat(directory, &found) != 0) return errno_error("stat", path);
  if (found.st_uid != 0 && found.st_uid != ::geteuid()) {
    return error(
        fmt::format("run directory {} belongs to uid {}; give it to uid {}, or set "
                    "--run-dir",
                    path, found.st_uid, ::geteuid()));
  }
  if ((found.st_mode & 022) != 0) {
    return error(
        fmt::format("run directory {} has mode {:04o}: other users can write to it; use "
                    "chmod go-w, or set --run-dir",
                    path, found.st_mode & 07777));
  }
  return {};
}

// Everybody may enter: `apiUsers` connect to a socket in it.
Result<void> make_run_directory(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  std::error_code failure;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failure);
  // A missing parent fails below as well; a relative path has none.
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return errno_error("mkdir", path);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd && (errno == ENOTDIR || errno == ELOOP)) {
    return error("run directory " + path +
                 " is a symbolic link or not a directory; remove it, or "
                 "set --run-dir");
  }
  if (!fd) return errno_error("open", path);
  return require_own(fd.get(), path);
}

}  // namespace

Result<InstanceLock> InstanceLock::take(const std::string& run_directory) {
  TRY(make_run_directory(run_directory));
  const std::string path = run_directory + "/agent.lock";
  auto fd = lock_file(path);
  if (fd.ok()) return InstanceLock(std::move(*fd));
  if (fd.error().code != EWOULDBLOCK) return fd.error();
  return Error{EWOULDBLOCK, fmt::format("another agent ({}) holds {}; stop it first, or set "
                                        "another --run-dir",
                                        fd.error().message, path)};
}

}  // namespace forestall::agent
