// SPDX-License-Identifier: Apache-2.0
// One kill, from the decision to the memory's return: a state machine that never waits.
//
//   begin ──▶ failed                      nothing could be signalled, or it was empty already
//     │ with a grace: SIGTERM
//     ├───▶ terminating ──▶ released      it exited by itself
//     │        │ the grace expired, or was shortened
//     ▼        ▼
//   in_flight ──▶ released                its memory is back (usage_meter.h has the rule)
//     │ release_timeout
//     ▼
//   stuck ──▶ released                    it came back late: reported as a second outcome
//
// A dry run stops before the first signal and stays in `in_flight` for kForgetAfter, with the
// expected memory of the kill as remaining. The policy then waits as after a real kill. With
// nothing remaining, it would select the next candidate at once, and so on, until it had "killed"
// the whole node. Once it has returned half of its memory by itself, nothing remains of this kill;
// a leak that follows is another one. After kForgetAfter the victim is a candidate again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actuators/cgroup_kill.h"
#include "actuators/first_blow.h"
#include "actuators/ladder.h"
#include "actuators/newer_processes.h"
#include "actuators/ongoing_kill.h"
#include "actuators/pinned_processes.h"
#include "actuators/process_snapshot.h"
#include "actuators/reaper_pool.h"
#include "actuators/usage_meter.h"
#include "actuators/victim_processes.h"
#include "actuators/victim_reclaim.h"
#include "base/clock.h"
#include "kernel/cgroup_tree.h"
#include "kernel/process_ref.h"
#include "model/kill.h"
#include "model/outcome.h"
#include "model/workload.h"

namespace forestall::actuators {

// How long a finished kill or a dry run is remembered.
inline constexpr Duration kForgetAfter = std::chrono::seconds(30);

class Victim {
 public:
  // If `only` is given, other processes of the cgroup are ignored: the warm-up kills its own child
  // in the agent's cgroup. Pinned processes, if given, are used for a kill without grace.
  Victim(const VictimContext& context, std::uint32_t number, const WorkloadSample& sample,
         const LadderOptions& options, std::optional<pid_t> only,
         std::shared_ptr<const PinnedProcesses> pinned = nullptr);
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;

  // Verifies, signals, starts reaping. Called once. With a grace above 0 it sends SIGTERM first.
  void begin(Duration grace);
  // The same, of a victim that another part of the agent has signalled already: if no process is
  // left, this is a kill too, and its memory may still be on its way back.
  void complete(const Signalled& signalled);
  // Kills at once what was started after the kill that `earlier` describes had ended.
  void repeat(const KillProgress& earlier);
  // Another part of the agent has signalled it too.
  void add_signalled(const Signalled& signalled) { add(signalled, outcome_); }
  // Limits the remaining grace of a terminating victim to `grace`; never extends it.
  void cut_grace(Duration grace);
  // Handles an event of the ladder's epoll.
  void on_event(std::uint32_t index);
  void on_report(std::uint32_t index, const ReapReport& report);
  // Advances the state machine after events.
  void check();

  [[nodiscard]] std::uint32_t number() const { return kill_.number; }
  [[nodiscard]] CgroupId cgroup() const { return outcome_.victim.cgroup; }
  [[nodiscard]] bool under_way() const;
  // When the next check is due even without an event.
  [[nodiscard]] std::optional<MonotonicTime> next_due() const;
  // Nothing is left to watch or to report.
  [[nodiscard]] bool forgettable() const { return forgettable_; }
  [[nodiscard]] KillProgress progress() const;
  // The outcome so far.
  [[nodiscard]] const Outcome& record() const { return outcome_; }
  // The outcome, if the state changed since the last call.
  [[nodiscard]] std::optional<Outcome> take_outcome();

 private:
  // By lists of the kernel's: SIGKILL before any path is opened, everything else afterwards.
  [[nodiscard]] bool strike();
  bool strike_listed();
  void follow_strike();
  // By pinned processes: SIGKILL after one read of the list, everything else afterwards.
  [[nodiscard]] bool kill_pinned();
  void take_over(std::span<const kernel::ProcessRef* const> reached);
  void kill_group_at_once(const std::vector<pid_t>& present);
  void follow_up(const std::vector<pid_t>& present, bool some_are_spared);
  // Of a victim that another part of the agent has signalled.
  void await_end();
  void adopt_dying();
  // Before the signal.
  // The directory that is held open (HeldCgroups), if it is.
  void take_held();
  [[nodiscard]] Result<void> open_directory();
  [[nodiscard]] Result<void> verify_id(CgroupId found) const;
  [[nodiscard]] Result<void> verify_path() const;
  [[nodiscard]] Result<void> verify();
  [[nodiscard]] Result<ProcessSnapshot> list_processes();
  [[nodiscard]] bool open_processes();
  std::size_t admit(ProcessSnapshot& snapshot);
  void measure_before();
  // cgroup.kill may be used; `present`: all of its processes, none of which is refused.
  void select_group(const std::vector<pid_t>& present, CgroupKill::Match wanted);
  // The signal.
  [[nodiscard]] bool request_exit(Duration grace);
  void end_now();
  [[nodiscard]] bool signal_all();
  void sweep();
  void sweep_in_turn();
  // After it.
  void watch(std::size_t from);
  void check_exits();
  [[nodiscard]] bool is_empty_again();
  void check_memory();
  // Nothing shows when its last process has freed its memory.
  [[nodiscard]] bool exit_is_unseen() const {
    return without_pidfds_ && !cgroup_kill_.may_be_watched();
  }
  void note_lost_usage();
  void note_progress(Bytes usage);
  void reclaim_rest();
  // A dry run is over when the victim has returned its memory by itself.
  void note_memory_of_dry_run();
  void finish(KillState state);
  void fail(Rung rung, Error why);
  [[nodiscard]] std::optional<Bytes> usage_now() const;
  [[nodiscard]] Bytes remaining() const;
  [[nodiscard]] Pinning pinning() const {
    return kill_.usable(Feature::pidfd) ? Pinning::by_pidfd : Pinning::none;
  }

  OngoingKill kill_;
  Outcome& outcome_ = kill_.outcome;
  const std::optional<pid_t> only_;
  const std::shared_ptr<const PinnedProcesses> pinned_;
  std::optional<Signalled> signalled_by_other_;
  std::optional<KillProgress> earlier_;  // the kill that this one repeats
  NewerProcesses newer_;
  // At the ranking; 0 if unknown. It was not part of the working set that the kill is to lower, so
  // its return does not count.
  const Bytes inactive_file_;
  const Bytes expected_;  // working set at the ranking

  // In the memory hierarchy; null: not opened yet.
  std::shared_ptr<const kernel::CgroupDir> dir_;
  std::shared_ptr<const UsageMeter> meter_;
  VictimProcesses processes_{kill_};
  CgroupKill cgroup_kill_{kill_};
  VictimReclaim reclaim_{kill_};

  // Of strike().
  std::vector<pid_t> struck_;  // on the list of the last blow, sorted
  bool all_struck_may_end_ = false;
  std::size_t watched_from_ = 0;  // the processes before it are watched and reaped

  bool outcome_waits_ = false;
  MonotonicTime sweep_due_;
  bool settled_ = false;         // the last process snapshot was quiet
  bool unlisted_ = false;        // it may have missed processes
  bool removed_ = false;         // the cgroup was removed
  bool without_pidfds_ = false;  // no process was left to open when it began
  bool forgettable_ = false;
  std::uint32_t unpinned_ = 0;            // at the last process snapshot
  std::optional<MonotonicTime> kill_at_;  // of a terminating one
  MonotonicTime deadline_;                // of the release, or of the next step towards it
  Bytes lowest_;                          // usage, since it was signalled
  MonotonicTime forget_at_;
  MonotonicTime checked_at_;
};

}  // namespace forestall::actuators
