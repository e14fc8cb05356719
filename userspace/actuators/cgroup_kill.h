// SPDX-License-Identifier: Apache-2.0
// cgroup.kill of one victim: finds the directory whose file kills exactly this victim, has a thread
// write the file, and watches cgroup.events of that directory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "actuators/group_kill_call.h"
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
  // used only if its processes are exactly the victim's, or a subset of them (`wanted`). Opens
  // nothing.
  void select(const std::shared_ptr<const kernel::CgroupDir>& victim,
              const std::vector<pid_t>& present, Match wanted, bool unlisted);
  // Processes may have entered the group since.
  void deselect() { selection_.reset(); }
  // On a hybrid host it waits for the kernel's locks: only if no process is pinned.
  [[nodiscard]] bool usable() const;

  // Writes it on this thread, where it may wait for the kernel's cgroup lock: only if no pidfd
  // works. `processes`: how many it kills. False: nothing was written.
  [[nodiscard]] bool write(std::uint32_t processes);
  // Has a thread open and write it, and open cgroup.events. Only once: processes that enter later
  // would not be compared. `unpinned`: how many processes are left to it.
  void queue(std::uint32_t unpinned);
  // After queue(): not if the thread has not begun it yet. A process has been found meanwhile that
  // may not be killed.
  void withdraw();
  // After queue(): so many processes were left to it in the end.
  void note_unpinned(std::uint32_t unpinned) { unpinned_ = unpinned; }
  // Of queue(), or of watch().
  void on_kill_report(const ReapReport& report);
  void on_watch_report(const ReapReport& report);
  // The thread has not reported on it yet.
  [[nodiscard]] bool queued() const { return killing_ != nullptr; }

  // Changes of cgroup.events are events of the ladder's epoll. A thread opens it, unless queue()
  // has it opened already.
  void watch();
  void on_event();
  [[nodiscard]] bool watched() const { return static_cast<bool>(events_); }
  // watched(), or not known yet.
  [[nodiscard]] bool may_be_watched() const { return events_ || killing_ || opening_; }
  // cgroup.procs drops a process when its exit begins, before it frees its memory. The kernel
  // reports the cgroup as unpopulated only after that (kernel/cgroup/cgroup.c
  // css_task_iter_advance, cgroup_exit). A pidfd gives the same; this is for victims without
  // pidfds: with processes that only cgroup.kill reached, it is true until the file is open. False
  // if it is not watched.
  [[nodiscard]] bool populated() const;

 private:
  struct Selection {
    std::shared_ptr<const kernel::CgroupDir> directory;  // null: `present` is to be compared
    std::vector<pid_t> present;
    Match wanted;
  };
  [[nodiscard]] std::shared_ptr<GroupKillCall> call(bool kills) const;
  [[nodiscard]] bool submit(std::uint32_t index, std::shared_ptr<GroupKillCall> call) const;
  void take_events(GroupKillCall& call);

  OngoingKill& kill_;
  std::optional<Selection> selection_;
  UniqueFd events_;  // cgroup.events of the group
  // The thread's, until it reports.
  std::shared_ptr<GroupKillCall> killing_;
  std::shared_ptr<GroupKillCall> opening_;
  std::uint32_t unpinned_ = 0;  // not pinned when it was queued
};

}  // namespace forestall::actuators
