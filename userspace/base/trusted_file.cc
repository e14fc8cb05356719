// SPDX-License-Identifier: Apache-2.0
#include "base/trusted_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <memory>
#include <string_view>

#include "base/printable.h"

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

// Symbolic links that the kernel follows in one path (fs/namei.c MAXSYMLINKS).
constexpr int kLinksMax = 40;

Result<std::string> target_of(const std::string& link) {
  std::array<char, PATH_MAX> target{};
  const ssize_t size = ::readlink(link.c_str(), target.data(), target.size());
  if (size < 0) return errno_error("readlink", link);
  if (static_cast<std::size_t>(size) == target.size()) return Error{ENAMETOOLONG, link};
  return std::string(target.data(), static_cast<std::size_t>(size));
}

// The owner of a link may be another than that of a directory with the sticky bit: it can then
// replace the link.
Result<void> check_link(const std::string& path, const std::string& directory,
                        const struct stat& status) {
  if (is_trusted_owner(status.st_uid) || is_read_only(directory)) return {};
  return refusal("link", path, status, fmt::format("run `chown -h root {}`", path));
}

// Every directory and link that an absolute path leads through, as the kernel resolves it: also the
// directories of a link whose target is another link.
Result<void> check_way(const std::string& path) {
  TRY(check_directory("/"));
  std::string reached = "/";  // without links
  std::string rest = path;
  int links = 0;
  while (!rest.empty()) {
    const auto slash = rest.find('/');
    const std::string name = rest.substr(0, slash);
    rest = slash == std::string::npos ? "" : rest.substr(slash + 1);
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      reached.resize(std::max<std::size_t>(reached.rfind('/'), 1));
      continue;
    }
    const std::string next = reached == "/" ? "/" + name : reached + "/" + name;
    struct stat status {};
    if (::lstat(next.c_str(), &status) != 0) return errno_error("resolve", next);
    if (S_ISLNK(status.st_mode)) {
      if (++links > kLinksMax) return Error{ELOOP, path};
      TRY(check_link(next, reached, status));
      const std::string target = TRY(target_of(next));
      if (target.starts_with('/')) reached = "/";
      rest = rest.empty() ? target : target + "/" + rest;
      continue;
    }
    if (S_ISDIR(status.st_mode)) TRY(check_directory(next));
    reached = next;
  }
  return {};
}

Result<std::string> absolute(const std::string& path) {
  if (path.starts_with('/')) return path;
  const std::unique_ptr<char, Free> directory(::getcwd(nullptr, 0));
  if (!directory) return errno_error("getcwd", path);
  return std::string(directory.get()) + "/" + path;
}

// The kernel follows this many scripts to their interpreters (fs/exec.c exec_binprm()), and reads
// this much of the first line (include/uapi/linux/binfmts.h BINPRM_BUF_SIZE).
constexpr int kInterpretersMax = 5;
constexpr std::size_t kFirstLineMax = 256;

// The interpreter in a script's first line; empty: it is not a script.
Result<std::string> interpreter_of(int program, const std::string& path) {
  std::array<char, kFirstLineMax> start{};
  const ssize_t size = ::pread(program, start.data(), start.size(), 0);
  if (size < 0) return errno_error("read", path);
  std::string_view line(start.data(), static_cast<std::size_t>(size));
  if (!line.starts_with("#!")) return std::string();
  line = line.substr(2, line.find('\n') - 2);
  const auto from = line.find_first_not_of(" \t");
  if (from == std::string_view::npos) return error(path + " names no interpreter after #!");
  line = line.substr(from);
  // As the kernel: a NUL ends it too.
  return std::string(line.substr(0, line.find_first_of(std::string_view(" \t\0", 3))));
}

// A script runs what its interpreter is, and that may be a script as well.
Result<void> check_interpreters(int program, const std::string& path) {
  std::string name = TRY(interpreter_of(program, path));
  for (int i = 0; i < kInterpretersMax && !name.empty(); ++i) {
    if (!name.starts_with('/')) {
      return error(fmt::format("{} has the interpreter {}, which is not an absolute path", path,
                               printable(name)));
    }
    const auto interpreter = open_trusted(name);
    if (!interpreter) return interpreter.error().in("interpreter of " + path);
    name = TRY(interpreter_of(interpreter->get(), name));
  }
  if (!name.empty()) return Error{ELOOP, "interpreters of " + path};
  return {};
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
  const auto way = check_way(named);
  // The descriptor of a pipe has no path behind its link.
  if (!way.ok() && (way.error().code != ENOENT || S_ISREG(status.st_mode))) return way.error();
  return fd;
}

Result<UniqueFd> open_trusted_program(const std::string& path) {
  UniqueFd program = TRY(open_trusted(path));
  struct stat status {};
  if (::fstat(program.get(), &status) != 0) return errno_error("stat", path);
  if (!S_ISREG(status.st_mode)) return error(path + " is not a regular file");
  if ((status.st_mode & 0111U) == 0) {
    return error(fmt::format("{} is not executable; run `chmod +x {}`", path, path));
  }
  TRY(check_interpreters(program.get(), path));
  return program;
}

Result<void> check_trusted_socket(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno_error("stat", path);
  if (!S_ISSOCK(status.st_mode)) return error(path + " is not a socket");
  if (!is_trusted_owner(status.st_uid)) {
    return refusal("socket", path, status, fmt::format("run `chown root {}`", path));
  }
  return check_way(TRY(absolute(path)));
}

}  // namespace forestall
