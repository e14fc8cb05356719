// SPDX-License-Identifier: Apache-2.0
// cgroup.kill of one victim: finds the directory whose file kills exactly this victim, writes the
// file, and watches cgroup.events of that directory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "actuators/ongoing_kill.h"
#include "actuators/reaper_pool.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"

namespace forestall::actuators {

// Thread rule: the loop's thread only.
class CgroupKill {
 public:
  enum class Match : std::uint8_t { same, within };

  // `kill` outlives it.
  explicit CgroupKill(OngoingKill& kill) : kill_(kill) {}
  CgroupKill(const CgroupKill&) = delete;
  CgroupKill& operator=(const CgroupKill&) = delete;
  ~CgroupKill();

  // `victim`: its open directory in the memory hierarchy. `present`: its processes, sorted;
  // `unlisted`: some may be missing. On v2 it is written to in that directory. On a hybrid host, in
  // that of the group of the same path in the v2 hierarchy, which may have other processes. It is
  // used only if its processes are exactly the victim's, or a subset of them (`wanted`).
  void select(const std::shared_ptr<const kernel::CgroupDir>& victim,
              const std::vector<pid_t>& present, Match wanted, bool unlisted);
  // The group was compared some time ago; another process may have entered since.
  void deselect() { directory_.reset(); }
  [[nodiscard]] bool selected() const { return directory_ != nullptr; }

  // Writes it on this thread, where it may wait for the kernel's cgroup lock: only if no pidfd
  // works. `processes`: how many it kills. False: nothing was written.
  [[nodiscard]] bool write(std::uint32_t processes);
  // Has a thread write it, and only once: the group was compared just now, and processes that enter
  // later would not be compared. `unpinned`: how many processes are left to it.
  void queue(std::uint32_t unpinned);
  // After queue(): not if the thread has not begun it yet. A process has been found meanwhile that
  // may not be killed.
  void withdraw();
  // After queue(): so many processes were left to it in the end.
  void note_unpinned(std::uint32_t unpinned) { unpinned_ = unpinned; }
  void on_report(const ReapReport& report);
  // The thread has not reported on it yet.
  [[nodiscard]] bool queued() const { return queued_; }

  // Changes of cgroup.events are events of the ladder's epoll.
  void watch();
  void on_event();
  [[nodiscard]] bool watched() const { return static_cast<bool>(events_); }
  // cgroup.procs drops a process when its exit begins, before it frees its memory. The kernel
  // reports the cgroup as unpopulated only after that (kernel/cgroup/cgroup.c
  // css_task_iter_advance, cgroup_exit). A pidfd gives the same; this is for victims without
  // pidfds. False if it is not watched.
  [[nodiscard]] bool populated() const;

 private:
  OngoingKill& kill_;
  std::shared_ptr<const kernel::CgroupDir> directory_;  // in the cgroup2 hierarchy
  UniqueFd events_;                                     // its cgroup.events
  bool queued_ = false;
  std::shared_ptr<std::atomic<bool>> withdrawn_;  // shared with the thread
  std::uint32_t unpinned_ = 0;                    // not pinned when it was queued
};

}  // namespace forestall::actuators
