// SPDX-License-Identifier: Apache-2.0
// Shared by the BPF tests: loaded programs, an event reader, a watched directory, and a process
// that causes reclaim.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "kernel/bpf_programs.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {

inline FeatureSet set_of(std::initializer_list<Feature> features) {
  FeatureSet set;
  for (const Feature feature : features) set.set(static_cast<std::size_t>(feature));
  return set;
}

inline std::unique_ptr<kernel::BpfPrograms> load_programs(const FeatureSet& disabled = {}) {
  Result<std::unique_ptr<kernel::BpfPrograms>> programs = kernel::BpfPrograms::load(disabled);
  if (!programs.ok()) throw std::runtime_error(programs.error().text());
  return std::move(programs).value();
}

// Programs that the cases of a suite use in turn: loading them takes an emulated guest seconds. A
// case gets them without a watch and without an event of the case before it; their sums go on.
class BpfSuite : public testing::Test {
 protected:
  static void TearDownTestSuite() { loaded().clear(); }
  static kernel::BpfPrograms& programs_without(const FeatureSet& disabled) {
    std::unique_ptr<kernel::BpfPrograms>& programs = loaded()[disabled.to_ullong()];
    if (!programs) programs = load_programs(disabled);
    if (!programs->watch({}).ok()) throw std::runtime_error("cannot remove all watches");
    programs->drain([](const abi_event&) {});
    return *programs;
  }
  static kernel::BpfPrograms& all_programs() { return programs_without({}); }

 private:
  static std::map<unsigned long long, std::unique_ptr<kernel::BpfPrograms>>& loaded() {
    static std::map<unsigned long long, std::unique_ptr<kernel::BpfPrograms>> by_disabled;
    return by_disabled;
  }
};

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
