// SPDX-License-Identifier: Apache-2.0
// What the BPF tests share: reading events as they come, a directory as a watch, and a process that
// makes reclaim happen.
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

// A cgroup directory held open, as whoever arms a watch has it.
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

// Events of one BpfPrograms, kept in the order they came.
class BpfEvents {
 public:
  using Match = std::function<bool(const abi_event&)>;

  explicit BpfEvents(kernel::BpfPrograms& programs) : programs_(programs) {}

  [[nodiscard]] std::size_t count(const Match& match) const {
    return static_cast<std::size_t>(std::ranges::count_if(seen_, match));
  }
  // Takes what is there.
  void drain() {
    programs_.drain([this](const abi_event& event) { seen_.push_back(event); });
  }
  // The first event that matches, waiting for it; null when it did not come in time.
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

// A crossing, whichever of the two ways saw it.
inline BpfEvents::Match crossing(CgroupId cgroup) {
  return [=](const abi_event& event) {
    return (event.kind == ABI_EVENT_usage_timer || event.kind == ABI_EVENT_charge) &&
           event.cgroup == cgroup.inode;
  };
}

// A file of `size` bytes of zeros whose pages can be cached and reclaimed but cost no disk. It is
// held open: a block device loses its page cache with the last who has it open.
class CacheFile {
 public:
  explicit CacheFile(Bytes size);
  CacheFile(const CacheFile&) = delete;
  CacheFile& operator=(const CacheFile&) = delete;
  ~CacheFile();

  [[nodiscard]] const std::string& path() const { return path_; }
  // Reads it from start to end `times` times through the page cache of the calling process' cgroup.
  // 0 on success, as a process' exit code.
  [[nodiscard]] int read_through(int times) const;

 private:
  std::string path_;
  Bytes size_;
  int zram_ = -1;  // number of the disk; none: a file
  UniqueFd open_;
};

}  // namespace forestall::test
