// SPDX-License-Identifier: Apache-2.0
// Shared by the BPF tests: an event reader, a watched directory, and a process that causes reclaim.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "kernel/bpf_programs.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {

// A cgroup directory held open, as a watch needs it.
class OpenCgroup {
 public:
  explicit OpenCgroup(const std::string& directory)
      : fd_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    struct stat status {};
    if (!fd_ || ::fstat(fd_.get(), &status) != 0) throw std::runtime_error("open " + directory);
    id_.inode = status.st_ino;
  }
  [[nodiscard]] CgroupId id() const { return id_; }
  [[nodiscard]] kernel::BpfWatch watch(Bytes line) const { return {id_, fd_.get(), line}; }

 private:
  UniqueFd fd_;
  CgroupId id_;
};

// Events of one BpfPrograms, in the order of arrival.
class BpfEvents {
 public:
  using Match = std::function<bool(const abi_event&)>;

  explicit BpfEvents(kernel::BpfPrograms& programs) : programs_(programs) {}

  [[nodiscard]] std::size_t count(const Match& match) const {
    return static_cast<std::size_t>(std::ranges::count_if(seen_, match));
  }
  // Takes the events that are there.
  void drain() {
    programs_.drain([this](const abi_event& event) { seen_.push_back(event); });
  }
  // Waits for the first event that matches; null if none comes in time.
  const abi_event* wait(const Match& match, Duration patience = kPatience) {
    const MonotonicTime end = SystemClock().now() + patience;
    while (true) {
      drain();
      const auto found = std::ranges::find_if(seen_, match);
      if (found != seen_.end()) return &*found;
      const Duration left = end - SystemClock().now();
      if (left <= Duration::zero()) return nullptr;
      pollfd ring{programs_.ring_fd(), POLLIN, 0};
      ::poll(&ring, 1, static_cast<int>(left / std::chrono::milliseconds(1)) + 1);
    }
  }
  void forget() { seen_.clear(); }

 private:
  kernel::BpfPrograms& programs_;
  std::vector<abi_event> seen_;
};

inline BpfEvents::Match of(abi_event_kind kind, CgroupId cgroup) {
  return [=](const abi_event& event) { return event.kind == kind && event.cgroup == cgroup.inode; };
}

// A crossing, of either kind.
inline BpfEvents::Match crossing(CgroupId cgroup) {
  return [=](const abi_event& event) {
    return (event.kind == ABI_EVENT_usage_timer || event.kind == ABI_EVENT_charge) &&
           event.cgroup == cgroup.inode;
  };
}

// A file of `size` bytes of zeros whose pages can be cached and reclaimed but need no disk space.
// It is held open, because a block device loses its page cache when its last user closes it.
class CacheFile {
 public:
  // More often than any test lasts: its process is killed.
  static constexpr int kUntilEnded = 1'000'000;

  explicit CacheFile(Bytes size);
  CacheFile(const CacheFile&) = delete;
  CacheFile& operator=(const CacheFile&) = delete;
  ~CacheFile();

  [[nodiscard]] const std::string& path() const { return path_; }
  // Reads it `times` times through the page cache of the calling process's cgroup. Returns an exit
  // code: 0 on success.
  [[nodiscard]] int read_through(int times) const;

 private:
  std::string path_;
  Bytes size_;
  int zram_ = -1;  // number of the disk; none: a file
  UniqueFd open_;
};

}  // namespace forestall::test
