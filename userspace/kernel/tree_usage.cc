// SPDX-License-Identifier: Apache-2.0
#include "kernel/tree_usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <memory>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/unique_fd.h"

namespace forestall::kernel {
namespace {

// Directories held open on the way down. At a greater depth the topmost ones are closed and opened
// again through "..", so depth costs no descriptors.
constexpr std::size_t kOpenLevels = 64;
// Bound on the remembered inodes with several names, of about 32 bytes each. Beyond it an inode
// counts once per name, so the result is too high, never too low.
constexpr std::size_t kRememberedInodes = std::size_t{1} << 16;
constexpr std::int64_t kBlock = 512;  // unit of st_blocks on every filesystem

struct CloseStream {
  void operator()(DIR* stream) const { ::closedir(stream); }
};
using Stream = std::unique_ptr<DIR, CloseStream>;

struct Attributes {
  dev_t device = 0;
  ino_t inode = 0;
  std::uint32_t links = 0;
  std::int64_t blocks = 0;
  bool directory = false;
};

// The error has only the errno; the caller that reports it adds the message.
std::optional<Attributes> attributes_of(int directory_fd, const char* name, int flags) {
  struct statx got {};
  flags |= AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  if (::statx(directory_fd, name, flags, STATX_BASIC_STATS, &got) != 0) return std::nullopt;
  return Attributes{makedev(got.stx_dev_major, got.stx_dev_minor), got.stx_ino, got.stx_nlink,
                    static_cast<std::int64_t>(got.stx_blocks), S_ISDIR(got.stx_mode)};
}

// Without updates of access times, if permitted: they would be writes to a full disk.
UniqueFd open_directory(int directory_fd, const char* name) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  UniqueFd fd(::openat(directory_fd, name, kFlags | O_NOATIME));
  if (!fd && errno == EPERM) fd.reset(::openat(directory_fd, name, kFlags));
  return fd;
}

class TreeWalk {
 public:
  explicit TreeWalk(const std::atomic<bool>& cancelled) : cancelled_(cancelled) {}

  Result<TreeUsage> run(int directory_fd, const std::string& path) {
    const auto root = attributes_of(directory_fd, path.c_str(), 0);
    if (!root) return errno_error("statx", path);
    device_ = root->device;
    count(*root);
    if (root->directory) enter(directory_fd, path.c_str(), root->inode);
    while (!levels_.empty()) {
      if (cancelled_.load(std::memory_order_relaxed)) return Error{ECANCELED, "walk " + path};
      errno = 0;
      const dirent* entry = ::readdir(levels_.back().stream.get());
      if (entry != nullptr) {
        visit(entry->d_name);
      } else {
        if (errno != 0) note("readdir", path);
        leave();
      }
    }
    return std::move(usage_);
  }

 private:
  struct Level {
    Stream stream;  // null while closed in favour of deeper levels
    ino_t inode = 0;
    long position = 0;  // telldir() when it was closed
  };

  void count(const Attributes& found) {
    const bool several_names = !found.directory && found.links > 1;
    const bool remembered = several_names && linked_.size() < kRememberedInodes;
    if (remembered && !linked_.insert(found.inode).second) return;
    if (several_names && !remembered && linked_.contains(found.inode)) return;
    usage_.used += Bytes{found.blocks * kBlock};
    ++usage_.inodes;
  }

  void visit(const char* name) {
    const std::string_view view(name);
    if (view == "." || view == "..") return;
    const int parent = ::dirfd(levels_.back().stream.get());
    const auto found = attributes_of(parent, name, 0);
    if (!found) {
      if (errno != ENOENT) note("statx", view);
      return;
    }
    if (found->device != device_) return;
    count(*found);
    if (found->directory) enter(parent, name, found->inode);
  }

  void enter(int parent, const char* name, ino_t inode) {
    UniqueFd fd = open_directory(parent, name);
    if (!fd) {
      // ENOTDIR, ELOOP: it was replaced since it was read.
      if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) note("open", name);
      return;
    }
    push({nullptr, inode, 0}, std::move(fd), name);
    if (levels_.size() <= kOpenLevels) return;
    Level& above = levels_[levels_.size() - 1 - kOpenLevels];
    if (!above.stream) return;
    above.position = ::telldir(above.stream.get());
    above.stream.reset();
  }

  // `name` may refer to something else by now.
  void push(Level level, UniqueFd fd, std::string_view name) {
    const auto opened = attributes_of(fd.get(), "", AT_EMPTY_PATH);
    if (!opened || opened->device != device_ || opened->inode != level.inode) return;
    level.stream.reset(::fdopendir(fd.get()));
    if (!level.stream) return note("fdopendir", name);
    (void)fd.release();  // the stream's now
    levels_.push_back(std::move(level));
  }

  void leave() {
    const Level done = std::move(levels_.back());
    levels_.pop_back();
    if (levels_.empty() || levels_.back().stream) return;
    Level closed = std::move(levels_.back());
    levels_.pop_back();
    const std::size_t above = levels_.size();
    const long position = closed.position;
    UniqueFd fd = open_directory(::dirfd(done.stream.get()), "..");
    if (fd) push(std::move(closed), std::move(fd), "..");
    if (levels_.size() > above) {
      ::seekdir(levels_.back().stream.get(), position);
      return;
    }
    // The directory was moved while the walk was inside, so ".." leads elsewhere.
    levels_.clear();
    usage_.problem = "a directory was moved while it was measured";
  }

  void note(std::string_view operation, std::string_view object) {
    const int code = errno;
    if (usage_.problem.empty()) {
      usage_.problem = Error{code, std::string(operation) + " " + std::string(object)}.text();
    }
  }

  const std::atomic<bool>& cancelled_;
  TreeUsage usage_;
  dev_t device_ = 0;
  std::vector<Level> levels_;
  std::unordered_set<ino_t> linked_;
};

}  // namespace

Result<TreeUsage> measure_tree(int directory_fd, const std::string& path,
                               const std::atomic<bool>& cancelled) {
  return TreeWalk(cancelled).run(directory_fd, path);
}

}  // namespace forestall::kernel
