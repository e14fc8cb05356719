// SPDX-License-Identifier: Apache-2.0
// Reads the memory pressure of single cgroups (v2), and waits for it: for events of
// memory.events.local, and for PSI triggers. A cgroup without pressure costs nothing.
//
// Without memory.events.local (kernels before 5.2), memory.events counts what happens in cgroups
// below it too.
//
// The owner of a cgroup namespace can turn its PSI off and on again (cgroup.pressure), which ends a
// trigger. The next reading sets a new one as soon as PSI can be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "kernel/held_file.h"
#include "kernel/psi_trigger.h"
#include "model/container_pressure.h"
#include "model/ids.h"

namespace forestall::sources {

// Thread rule: one thread at a time.
class ContainerPressureReader {
 public:
  // `tree` must outlive it. wait() also ends when one of `others` is readable.
  static Result<std::unique_ptr<ContainerPressureReader>> create(const kernel::CgroupTree& tree,
                                                                 const std::vector<int>& others);

  // Begins to watch a cgroup, not armed. `psi`: the percentage of time of a PSI trigger; nothing:
  // without one. An error: its memory.events cannot be read.
  [[nodiscard]] Result<void> watch(CgroupId cgroup, const std::string& path,
                                   std::optional<double> psi);
  void forget(CgroupId cgroup);
  [[nodiscard]] bool watches(CgroupId cgroup) const { return watched_.contains(cgroup); }
  // Why it has no PSI trigger now; empty: it has, or none is wanted. REQUIRES: it is watched.
  [[nodiscard]] const std::string& without_trigger(CgroupId cgroup) const {
    return watched_.at(cgroup)->without_trigger;
  }

  // Without the counters that this kernel does not have, and without PSI that is off. An error:
  // anything else cannot be read. REQUIRES: it is watched.
  [[nodiscard]] Result<ContainerPressureReading> read(CgroupId cgroup, MonotonicTime now);
  // wait() returns it once, at the next event after the last read(). After an error it has no
  // events, and must be read instead. REQUIRES: it is watched.
  [[nodiscard]] Result<void> arm(CgroupId cgroup);
  // The armed cgroups with an event, at latest at `due`; may be none, and one may be there twice.
  [[nodiscard]] std::vector<CgroupId> wait(std::optional<MonotonicTime> due);

 private:
  struct Watched {
    CgroupId cgroup;
    std::uint64_t serial;
    kernel::CgroupDir directory;
    kernel::HeldFile events;
    std::optional<double> psi;
    std::optional<kernel::PsiTrigger> trigger = {};
    std::string without_trigger = {};
  };
  ContainerPressureReader(const kernel::CgroupTree& tree, UniqueFd epoll)
      : tree_(tree), epoll_(std::move(epoll)) {}
  [[nodiscard]] Result<void> arm(int fd, const std::string& name, std::uint64_t token) const;
  static void set_trigger(Watched& watched);
  static void end_trigger(Watched& watched, std::string why);
  [[nodiscard]] static Result<std::optional<Duration>> read_stall(Watched& watched);

  const kernel::CgroupTree& tree_;
  const UniqueFd epoll_;
  std::map<CgroupId, std::unique_ptr<Watched>> watched_;
  // The cgroup of each serial. An inode may be used again while an event of it is waiting.
  std::map<std::uint64_t, CgroupId> serials_;
  std::uint64_t last_serial_ = 0;
  std::string buffer_;
};

}  // namespace forestall::sources
