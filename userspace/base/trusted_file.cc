// SPDX-License-Identifier: Apache-2.0
#include "base/trusted_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <memory>
#include <string_view>

namespace forestall {
namespace {

constexpr mode_t kWritableForOthers = S_IWGRP | S_IWOTH;

struct Free {
  void operator()(char* text) const { ::free(text); }
};

bool is_trusted_owner(uid_t owner) {
  return owner == 0 || owner == ::geteuid();
}

Error refusal(std::string_view what, const std::string& path, const struct stat& status,
              std::string_view remedy) {
  return error(fmt::format(
      "{} {} is owned by uid {} with mode {:04o}: others than root and the agent's user "
      "can change what the agent kills; {}",
      what, path, status.st_uid, status.st_mode & 07777U, remedy));
}

Result<void> check(std::string_view what, const std::string& path, const struct stat& status) {
  if (!is_trusted_owner(status.st_uid)) {
    return refusal(what, path, status, fmt::format("run `chown root {}`", path));
  }
  if ((status.st_mode & kWritableForOthers) != 0) {
    return refusal(what, path, status, fmt::format("run `chmod go-w {}`", path));
  }
  return {};
}

bool is_read_only(const std::string& directory) {
  struct statvfs status {};
  return ::statvfs(directory.c_str(), &status) == 0 && (status.f_flag & ST_RDONLY) != 0;
}

Result<void> check_directory(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno_error("stat", path);
  const bool sticky = (status.st_mode & S_ISVTX) != 0 && is_trusted_owner(status.st_uid);
  if (sticky || is_read_only(path)) return {};
  return check("directory", path, status);
}

// All directories above an absolute path, from the root.
Result<void> check_directories(const std::string& path) {
  TRY(check_directory("/"));
  for (auto slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    TRY(check_directory(path.substr(0, slash)));
  }
  return {};
}

Result<std::string> absolute(const std::string& path) {
  if (path.starts_with('/')) return path;
  const std::unique_ptr<char, Free> directory(::getcwd(nullptr, 0));
  if (!directory) return errno_error("getcwd", path);
  return std::string(directory.get()) + "/" + path;
}

}  // namespace

Result<UniqueFd> open_trusted(const std::string& path) {
  // O_NONBLOCK: opening a FIFO without a writer must not block a reload; regular files ignore the
  // flag.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return errno_error("open", path);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return errno_error("stat", path);
  TRY(check("file", path, status));
  const std::string named = TRY(absolute(path));
  TRY(check_directories(named));
  // The descriptor of a pipe has no path behind its link.
  const std::unique_ptr<char, Free> target(::realpath(path.c_str(), nullptr));
  if (target) TRY(check_directories(target.get()));
  if (!target && S_ISREG(status.st_mode)) return errno_error("resolve", path);
  return fd;
}

Result<void> check_trusted_socket(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno_error("stat", path);
  if (!S_ISSOCK(status.st_mode)) return error(path + " is not a socket");
  if (!is_trusted_owner(status.st_uid)) {
    return refusal("socket", path, status, fmt::format("run `chown root {}`", path));
  }
  const std::string named = TRY(absolute(path));
  TRY(check_directories(named));
  const std::unique_ptr<char, Free> target(::realpath(path.c_str(), nullptr));
  if (!target) return errno_error("resolve", path);
  return check_directories(target.get());
}

}  // namespace forestall
