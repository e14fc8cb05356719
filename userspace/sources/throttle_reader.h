// SPDX-License-Identifier: Apache-2.0
// Reads whether cgroups that are throttled by memory.high (v2) make progress. It waits for their
// "high" events, so that a cgroup below its memory.high costs nothing.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "kernel/held_file.h"
#include "model/ids.h"
#include "model/throttle_reading.h"

namespace forestall::sources {

// Thread rule: one thread at a time.
class ThrottleReader {
 public:
  // `tree` must outlive it.
  static Result<std::unique_ptr<ThrottleReader>> create(const kernel::CgroupTree& tree);

  // Becomes readable with the next event of a cgroup that is armed.
  [[nodiscard]] int fd() const { return epoll_.get(); }

  // Begins to watch a cgroup, not armed. An error: one of the files cannot be read, for example
  // because PSI is off.
  [[nodiscard]] Result<void> watch(CgroupId cgroup, const std::string& path);
  void forget(CgroupId cgroup);
  [[nodiscard]] bool watches(CgroupId cgroup) const { return watched_.contains(cgroup); }
  // The cgroups with an event. None of them has another one before arm().
  [[nodiscard]] std::vector<CgroupId> take_events();
  // REQUIRES: it is watched. After an error it has no events, and must be read instead.
  [[nodiscard]] Result<void> arm(CgroupId cgroup);
  // REQUIRES: it is watched. An error also if a file lacks its value.
  [[nodiscard]] Result<ThrottleReading> read(CgroupId cgroup, MonotonicTime now);

 private:
  struct Watched {
    CgroupId cgroup;
    kernel::CgroupDir directory;
    kernel::HeldFile events;  // memory.events.local
    bool in_epoll = false;
  };
  ThrottleReader(const kernel::CgroupTree& tree, UniqueFd epoll)
      : tree_(tree), epoll_(std::move(epoll)) {}
  [[nodiscard]] Result<ThrottleReading> read(const Watched& watched, MonotonicTime now);

  const kernel::CgroupTree& tree_;
  const UniqueFd epoll_;
  std::map<CgroupId, std::unique_ptr<Watched>> watched_;
  std::string buffer_;
};

}  // namespace forestall::sources
