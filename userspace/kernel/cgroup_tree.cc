// SPDX-License-Identifier: Apache-2.0
// Cgroups as directories. Discovery uses libcgroup once, at start. All later reads use held
// descriptors: libcgroup takes 1 ms and 232 KiB of heap for what a pread does in 2 µs, finds only
// the first mount of a controller, and does not support a hierarchy without controllers.
#include "kernel/cgroup_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <libcgroup.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/parse.h"
#include "kernel/held_file.h"

namespace forestall::kernel {
namespace {

Result<UniqueFd> open_directory(int at, const char* name, std::string_view path) {
  UniqueFd fd(::openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return errno_error("open cgroup", path);
  return fd;
}

// "/a/b" as "a/b" and "/" as ".", for openat(). An error for a path that could leave the hierarchy
// or name the same cgroup in two ways.
Result<std::string> relative_path(std::string_view path) {
  if (path == "/") return std::string(".");
  // Built only on failure: a walk over the tree calls this thousands of times.
  const auto invalid = [&] { return Error{EINVAL, fmt::format("cgroup path \"{}\"", path)}; };
  if (!path.starts_with('/') || path.find('\0') != std::string_view::npos) return invalid();
  auto rest = path.substr(1);
  while (!rest.empty() || path.ends_with('/')) {
    const auto part = next_field(rest, '/');
    if (part.empty() || part == "." || part == "..") return invalid();
    if (rest.empty() && path.ends_with('/')) return invalid();
  }
  return std::string(path.substr(1));
}

std::string join(std::string_view parent, std::string_view name) {
  return parent == "/" ? fmt::format("/{}", name) : fmt::format("{}/{}", parent, name);
}

bool is_directory(int at, const dirent64& entry) {
  if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_DIR;
  struct stat status {};
  return ::fstatat(at, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

// Child directories of an O_PATH descriptor. Calls getdents64() instead of readdir(), because
// readdir() reports the ENOENT of a removed directory as its end. ENODEV: it was removed.
Result<std::vector<std::string>> list_children(int at, std::string_view path) {
  const UniqueFd fd(::openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return errno_error("open cgroup", path);
  std::vector<std::string> names;
  alignas(dirent64) std::array<char, 8192> buffer;
  for (;;) {
    const auto got = ::syscall(SYS_getdents64, fd.get(), buffer.data(), buffer.size());
    if (got < 0) {
      if (errno == ENOENT) errno = ENODEV;
      return errno_error("list cgroup", path);
    }
    if (got == 0) return names;
    for (long offset = 0; offset < got;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer.data() + offset);
      offset += entry->d_reclen;
      const std::string_view name = entry->d_name;
      if (name != "." && name != ".." && is_directory(fd.get(), *entry)) names.emplace_back(name);
    }
  }
}

// Whether the directory of `at` was removed: the kernel lists it as long as it exists.
bool was_removed(int at) {
  const auto children = list_children(at, "");
  return !children && children.error().code == ENODEV;
}

// openat() of a control file. The kernel returns ENOENT both for a file that it does not have and
// for any file of a removed cgroup. This returns ENODEV for the latter.
Result<UniqueFd> open_control_file(int at, std::string_view path, const char* file, int flags) {
  UniqueFd fd(::openat(at, file, flags | O_CLOEXEC));
  if (fd) return fd;
  Error failure = errno_error("open", join(path, file));
  if (failure.code == ENOENT && was_removed(at)) failure.code = ENODEV;
  return failure;
}

Result<void> append_processes(int at, std::string_view path, std::vector<pid_t>& pids) {
  const UniqueFd fd = TRY(open_control_file(at, path, "cgroup.procs", O_RDONLY));
  std::string buffer;
  auto text = TRY(read_whole(fd.get(), buffer, join(path, "cgroup.procs")));
  for (auto word = next_word(text); !word.empty(); word = next_word(text)) {
    const auto pid = parse_i64(word);
    // 0 means a process outside of this pid namespace. The agent could not signal it, so a list
    // without it would be incomplete.
    if (!pid || *pid <= 0 || *pid > std::int64_t{1} << 30) {
      return error(fmt::format("{}: \"{}\" is not a process of this pid namespace",
                               join(path, "cgroup.procs"), word));
    }
    pids.push_back(static_cast<pid_t>(*pid));
  }
  return {};
}

bool has_wildcard(std::string_view part) {
  return part.find_first_of("*?[\\") != std::string_view::npos;
}

bool names_directory(int at, const std::string& name) {
  struct stat status {};
  return ::fstatat(at, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

// Collects matches of the remaining components `rest` in `at`. Opens a component without wildcards
// directly and matches any other against the children.
class GlobWalk {
 public:
  explicit GlobWalk(std::vector<std::string>& found) : found_(found) {}

  void visit(int at, const std::string& path, std::string_view rest) {
    const std::string part(next_field(rest, '/'));
    for (const auto& name : names_in(at, path, part)) {
      const auto child_path = join(path, name);
      if (rest.empty()) {
        if (names_directory(at, name)) found_.push_back(child_path);
        continue;
      }
      const auto child = open_directory(at, name.c_str(), child_path);
      if (child) {
        visit(child->get(), child_path, rest);
      } else {
        note(child.error());
      }
    }
  }
  [[nodiscard]] const Result<void>& result() const { return result_; }

 private:
  std::vector<std::string> names_in(int at, const std::string& path, const std::string& part) {
    if (part.empty() || part == "." || part == "..") return {};  // no cgroup has such a name
    if (!has_wildcard(part)) return {part};
    auto children = list_children(at, path);
    if (!children) {
      note(children.error());
      return {};
    }
    std::erase_if(*children, [&](const std::string& name) {
      return ::fnmatch(part.c_str(), name.c_str(), 0) != 0;
    });
    return std::move(children).value();
  }
  void note(const Error& failure) {
    // Removed since it was listed, or a plain file of that name.
    if (is_removed(failure) || failure.code == ENOTDIR) return;
    if (result_.ok()) result_ = failure;
  }

  std::vector<std::string>& found_;
  Result<void> result_;
};

// ---- discovery ----

enum class Hierarchy : std::uint8_t { none, v1, v2 };

// The hierarchy that is mounted at `directory`, by the magic number of its file system.
Hierarchy hierarchy_at(const std::string& directory) {
  struct statfs status {};
  if (::statfs(directory.c_str(), &status) != 0) return Hierarchy::none;
  if (status.f_type == CGROUP2_SUPER_MAGIC) return Hierarchy::v2;
  return status.f_type == CGROUP_SUPER_MAGIC ? Hierarchy::v1 : Hierarchy::none;
}

// The same for a copy of a cgroup tree on an ordinary file system (an unpacked archive of a
// host's /sys/fs/cgroup): only a cgroup2 root has this file.
Hierarchy hierarchy_by_shape(const std::string& directory) {
  const auto mounted = hierarchy_at(directory);
  if (mounted != Hierarchy::none) return mounted;
  if (::access((directory + "/cgroup.controllers").c_str(), F_OK) == 0) return Hierarchy::v2;
  if (::access((directory + "/memory.stat").c_str(), F_OK) == 0) return Hierarchy::v1;
  return Hierarchy::none;
}

struct Found {
  std::string memory;
  CgroupVersion version = CgroupVersion::v2;
  std::string unified;  // empty: only `memory`
};

// From the directory alone: v2 is the directory itself, v1 has "memory" (and on hybrid hosts
// "unified", systemd's name for it) below it.
Result<Found> find_in(const std::string& directory) {
  if (hierarchy_by_shape(directory) == Hierarchy::v2) {
    return Found{directory, CgroupVersion::v2, {}};
  }
  Found found{directory + "/memory", CgroupVersion::v1, {}};
  if (hierarchy_by_shape(found.memory) != Hierarchy::v1) {
    return error(
        fmt::format("{}: neither a cgroup2 mount nor a directory with the v1 memory "
                    "hierarchy in \"memory\"",
                    directory));
  }
  const auto unified = directory + "/unified";
  if (hierarchy_by_shape(unified) == Hierarchy::v2) found.unified = unified;
  return found;
}

// The mount of the memory controller according to libcgroup. Its text for errors above 50022 is off
// by one, so the message has the number too.
Result<std::string> query_libcgroup() {
  if (const int failure = ::cgroup_init(); failure != 0) {
    return error(fmt::format("libcgroup {}: {}", failure, ::cgroup_strerror(failure)));
  }
  char* mount = nullptr;
  if (const int failure = ::cgroup_get_subsys_mount_point("memory", &mount); failure != 0) {
    return error(fmt::format("libcgroup {}: memory: {}", failure, ::cgroup_strerror(failure)));
  }
  std::string found = mount;
  ::free(mount);
  return found;
}

// The host's own hierarchies: libcgroup's result, verified by statfs.
Result<Found> find_mounted(const std::string& directory) {
  const auto memory = query_libcgroup();
  // Newer kernels list only v1 controllers in /proc/cgroups, which libcgroup reads first. The
  // fallback is a cgroup2 mount at the usual place.
  if (!memory) {
    auto fallback = find_in(directory);
    if (fallback) return fallback;
    return error(fmt::format("{}; {}", memory.error().text(), fallback.error().text()));
  }
  switch (hierarchy_at(*memory)) {
    case Hierarchy::v2: return Found{*memory, CgroupVersion::v2, {}};
    case Hierarchy::v1: {
      const auto unified = directory + "/unified";
      return Found{*memory, CgroupVersion::v1,
                   hierarchy_at(unified) == Hierarchy::v2 ? unified : std::string()};
    }
    case Hierarchy::none: break;
  }
  return error(
      fmt::format("libcgroup reports the memory controller at {}, which is not a cgroup "
                  "file system",
                  *memory));
}

Result<UniqueFd> open_mount(const std::string& directory) {
  UniqueFd fd(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return errno_error("open", directory);
  return fd;
}

bool lists_memory(std::string_view controllers) {
  while (!controllers.empty()) {
    if (next_field(controllers, ',') == "memory") return true;
  }
  return false;
}

}  // namespace

// ---- CgroupDir ----

Result<CgroupDir> CgroupDir::open(int mount_fd, std::string_view path) {
  const auto relative = TRY(relative_path(path));
  UniqueFd fd = TRY(open_directory(mount_fd, relative.c_str(), path));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return errno_error("stat cgroup", path);
  return CgroupDir(CgroupId{status.st_ino}, std::string(path), std::move(fd));
}

Result<std::string> CgroupDir::read(const char* file) const {
  const UniqueFd fd = TRY(open_file(file, O_RDONLY));
  std::string buffer;
  const auto text = TRY(read_whole(fd.get(), buffer, join(path_, file)));
  return std::string(text);
}

Result<void> CgroupDir::write(const char* file, std::string_view text) const {
  const UniqueFd fd = TRY(open_file(file, O_WRONLY));
  // A control file takes its whole value in one write(), so a partial write cannot be continued.
  const ssize_t written = ::write(fd.get(), text.data(), text.size());
  if (written < 0) return errno_error(fmt::format("write \"{}\" to", text), join(path_, file));
  if (static_cast<std::size_t>(written) != text.size()) {
    return Error{EIO, fmt::format("write \"{}\" to {}", text, join(path_, file))};
  }
  return {};
}

Result<UniqueFd> CgroupDir::open_file(const char* file, int flags) const {
  return open_control_file(fd_.get(), path_, file, flags);
}

Result<std::vector<pid_t>> CgroupDir::processes() const {
  std::vector<pid_t> pids;
  TRY(append_processes(fd_.get(), path_, pids));
  return pids;
}

Result<std::vector<std::string>> CgroupDir::children() const {
  return list_children(fd_.get(), path_);
}

bool CgroupDir::still_at_path(int mount_fd) const {
  const auto relative = relative_path(path_);
  struct stat now {};
  // Called for every workload of the node, so it makes only one system call.
  return relative && ::fstatat(mount_fd, relative->c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(now.st_mode) && CgroupId{now.st_ino} == id_;
}

// ---- CgroupTree ----

Result<CgroupTree> CgroupTree::discover(const std::string& cgroup_mount) {
  // libcgroup uses the first mount of a controller in /proc/mounts, which in a container is the
  // container's own. So only the usual directory is found by libcgroup; any other is used as given.
  const auto found =
      TRY(cgroup_mount == "/sys/fs/cgroup" ? find_mounted(cgroup_mount) : find_in(cgroup_mount));
  CgroupTree tree;
  tree.version_ = found.version;
  tree.memory_mount_ = found.memory;
  tree.memory_ = TRY(open_mount(found.memory));
  if (!found.unified.empty()) tree.unified_ = TRY(open_mount(found.unified));
  return tree;
}

Result<CgroupDir> CgroupTree::open_unified(std::string_view path) const {
  if (unified_fd() < 0) return Error{ENOENT, fmt::format("cgroup2 mount for {}", path)};
  return CgroupDir::open(unified_fd(), path);
}

Result<CgroupId> CgroupTree::id_at(std::string_view path) const {
  const auto relative = TRY(relative_path(path));
  struct stat status {};
  if (::fstatat(memory_.get(), relative.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno_error("stat cgroup", path);
  }
  if (!S_ISDIR(status.st_mode)) return Error{ENOENT, fmt::format("cgroup {}", path)};
  return CgroupId{status.st_ino};
}

Result<std::vector<std::string>> CgroupTree::match(const std::string& glob) const {
  std::vector<std::string> found;
  TRY(match(glob, found));
  return found;
}

Result<void> CgroupTree::match(const std::string& glob, std::vector<std::string>& found) const {
  found.clear();
  if (!glob.starts_with('/')) return error(fmt::format("glob \"{}\" does not begin with /", glob));
  if (glob == "/") {
    found = {"/"};
    return {};
  }
  GlobWalk walk(found);
  walk.visit(memory_.get(), "/", std::string_view(glob).substr(1));
  // The walk matches part by part. For a bracket expression that spans a slash it differs from
  // fnmatch(), whose result glob_matches() documents.
  std::erase_if(found, [&](const std::string& path) { return !glob_matches(glob, path); });
  std::sort(found.begin(), found.end());
  return walk.result();
}

Result<std::string> CgroupTree::path_of(pid_t pid) const {
  const auto name = fmt::format("/proc/{}/cgroup", pid);
  const UniqueFd fd(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return errno_error("open", name);
  std::string buffer;
  return parse_cgroup_path(TRY(read_whole(fd.get(), buffer, name)), version_);
}

Result<std::string> parse_cgroup_path(std::string_view text, CgroupVersion version) {
  while (!text.empty()) {
    auto line = next_field(text, '\n');
    const auto hierarchy = next_field(line, ':');
    const auto controllers = next_field(line, ':');
    const bool wanted = version == CgroupVersion::v2 ? hierarchy == "0" && controllers.empty()
                                                     : lists_memory(controllers);
    if (!wanted) continue;
    if (!line.starts_with('/')) {
      return error(fmt::format("cgroup path \"{}\" does not begin with /", line));
    }
    return std::string(line);
  }
  return error(version == CgroupVersion::v2 ? "no cgroup v2 line (\"0::\")"
                                            : "no line of the memory controller");
}

bool glob_matches(const std::string& glob, const std::string& path) {
  return ::fnmatch(glob.c_str(), path.c_str(), FNM_PATHNAME) == 0;
}

}  // namespace forestall::kernel
