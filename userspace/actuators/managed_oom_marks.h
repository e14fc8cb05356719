// SPDX-License-Identifier: Apache-2.0
// The extended attributes that systemd-oomd leaves on a cgroup that it kills. PID 1 compares
// user.oomd_ooms when the cgroup becomes empty: if it has grown, the result of the unit is
// "oom-kill".
//
// Setting one takes the lock of the cgroup's inode. The owner of the cgroup can hold that lock for
// as long as it likes, such as by a readdir() into memory whose faults it serves itself. So a
// thread of its own sets them, which no kill waits for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "model/workload.h"

namespace forestall::actuators {

struct ManagedOomMark {
  Workload victim;
  std::uint64_t processes = 0;  // that the kill signalled
  bool for_swap = false;        // by ManagedOOMSwap, not by ManagedOOMMemoryPressure
};

// Base: nothing is marked.
// Thread rule: all calls come from one thread, the loop's. Only the destructor waits.
class ManagedOomMarker {
 public:
  ManagedOomMarker() = default;
  ManagedOomMarker(const ManagedOomMarker&) = delete;
  ManagedOomMarker& operator=(const ManagedOomMarker&) = delete;
  virtual ~ManagedOomMarker() = default;

  // Right after the signals: exiting takes a process longer than this takes.
  virtual void mark(ManagedOomMark /*mark*/) {}
};

class ManagedOomMarkerThread final : public ManagedOomMarker {
 public:
  // Marks that wait; a further one is a problem.
  static constexpr std::size_t kWaitingMax = 64;
  // Called on the thread and on the loop's.
  using Report = std::function<void(const std::string& problem)>;

  // `tree` outlives it.
  static Result<std::unique_ptr<ManagedOomMarkerThread>> start(const kernel::CgroupTree& tree,
                                                               Report report);
  // Waits until all are set.
  ~ManagedOomMarkerThread() override;

  void mark(ManagedOomMark mark) override;

 private:
  ManagedOomMarkerThread(const kernel::CgroupTree& tree, Report report, UniqueFd changed)
      : tree_(tree), report_(std::move(report)), changed_(std::move(changed)) {}
  void serve();
  // False: it has to end.
  [[nodiscard]] bool take(std::deque<ManagedOomMark>& marks);

  const kernel::CgroupTree& tree_;
  const Report report_;
  const UniqueFd changed_;  // eventfd: what the mutex guards changed
  base::PriorityMutex mutex_;
  std::deque<ManagedOomMark> waiting_;
  bool stopped_ = false;

  std::thread thread_;  // last: serve() uses all members above
};

// Adds 1 to user.oomd_ooms and the number of processes to user.oomd_kill. An error names what could
// not be set. A cgroup that was removed and created again is not marked.
[[nodiscard]] Result<void> mark_managed_oom(const kernel::CgroupTree& tree,
                                            const ManagedOomMark& mark);

// Adds to a number in an attribute; without it, to 0. An error: the attribute has no number, or the
// sum is too large.
[[nodiscard]] Result<void> add_to_attribute(int directory, const char* name, std::uint64_t number);

}  // namespace forestall::actuators
