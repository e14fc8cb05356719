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

#include "actuators/ladder.h"
#include "actuators/never_kill.h"
#include "actuators/pinned_processes.h"
#include "actuators/process_snapshot.h"
#include "actuators/reaper_pool.h"
#include "actuators/usage_meter.h"
#include "base/clock.h"
#include "kernel/cgroup_tree.h"
#include "kernel/process_ref.h"
#include "model/kill.h"
#include "model/outcome.h"
#include "model/workload.h"

namespace forestall::actuators {

// How long a finished kill or a dry run is remembered.
inline constexpr Duration kForgetAfter = std::chrono::seconds(30);

// Shared by all kills; outlives each of them.
struct VictimContext {
  const kernel::CgroupTree& tree;
  const Clock& clock;
  const NeverKill& never_kill;
  ReaperPool& reapers;
  // One thread for memory.reclaim and memory.force_empty, which may wait for swap or a disk. It
  // must not delay process_mrelease of another victim.
  ReaperPool& reclaimer;
  int epoll;
};

// Key of the ladder's epoll events and the reapers' tickets: a process of a victim by its index,
// the victim's cgroup.events, or the job that writes its cgroup.kill.
struct EventKey {
  std::uint32_t victim = 0;  // 0 is no victim
  std::uint32_t index = 0;

  static constexpr std::uint32_t kCgroupEvents = UINT32_MAX;
  static constexpr std::uint32_t kCgroupKill = UINT32_MAX - 1;  // only on tickets
  static constexpr std::uint32_t kReclaim = UINT32_MAX - 2;     // only on tickets
  [[nodiscard]] constexpr std::uint64_t pack() const {
    return (std::uint64_t{victim} << 32) | index;
  }
  static constexpr EventKey unpack(std::uint64_t key) {
    return {static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(key)};
  }
};

// Adds to an outcome what another part of the agent did before the outcome began.
void add(const Signalled& signalled, Outcome& outcome);

class Victim {
 public:
  // `number` is unique among the kills of a ladder, and not 0. If `only` is given, other processes
  // of the cgroup are ignored: the warm-up kills its own child in the agent's cgroup.
  // Pinned processes, if given, are used for a kill without grace.
  Victim(const VictimContext& context, std::uint32_t number, const WorkloadSample& sample,
         const LadderOptions& options, std::optional<pid_t> only,
         std::shared_ptr<const PinnedProcesses> pinned = nullptr);
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;
  ~Victim();

  // Verifies, signals, starts reaping. Called once. With a grace above 0 it sends SIGTERM first.
  void begin(Duration grace);
  // The same, of a victim that another part of the agent has signalled already: if no process is
  // left, this is a kill too, and its memory may still be on its way back.
  void complete(const Signalled& signalled);
  // Another part of the agent has signalled it too.
  void was_signalled(const Signalled& signalled) { add(signalled, outcome_); }
  // Limits the remaining grace of a terminating victim to `grace`; never extends it.
  void cut_grace(Duration grace);
  // Handles an event of the ladder's epoll.
  void on_event(std::uint32_t index);
  void on_report(std::uint32_t index, const ReapReport& report);
  // Advances the state machine after events.
  void check();

  [[nodiscard]] std::uint32_t number() const { return number_; }
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
  enum class Twin : std::uint8_t { same, within };
  enum class Reaping : std::uint8_t { wanted, queued, ended };
  enum class Reclaiming : std::uint8_t { not_yet, queued, ended };
  struct Held {
    std::optional<kernel::ProcessRef> process;  // nullopt once it exited
    pid_t pid = 0;
    Reaping reaping = Reaping::wanted;
    bool signalled = false;
  };

  // Kill by pinned processes.
  [[nodiscard]] bool kill_pinned();
  void await_end();
  void adopt_dying();
  void take_over(std::span<const kernel::ProcessRef* const> reached);
  void follow_up(const std::vector<pid_t>& present);
  [[nodiscard]] Result<ProcessSnapshot> list_processes();
  // Before the signal.
  [[nodiscard]] Result<void> verify();
  [[nodiscard]] bool open_processes();
  void measure_before();
  // The signal.
  [[nodiscard]] bool request_exit(Duration grace);
  void end_now();
  void compare_twin_again();
  void open_twin(const std::vector<pid_t>& present, Twin wanted);
  [[nodiscard]] bool signal_all();
  [[nodiscard]] bool kill_cgroup();
  void queue_cgroup_kill();
  void on_cgroup_kill(const ReapReport& report);
  [[nodiscard]] bool signal_processes(std::size_t from, int signal);
  std::size_t admit(ProcessSnapshot& snapshot);
  void sweep();
  void sweep_in_turn();
  // After it.
  void watch(std::size_t from);
  void unwatch(Held& held);
  void reap(std::size_t from);
  bool submit(std::size_t index);
  [[nodiscard]] std::vector<pid_t> known() const;
  void check_exits();
  void check_memory();
  void note_progress(Bytes usage);
  void reclaim_rest();
  [[nodiscard]] bool is_reaping() const;
  void on_reclaim(const ReapReport& report);
  void note_left_behind(Bytes usage);
  [[nodiscard]] bool populated() const;
  // A dry run is over when the victim has returned its memory by itself.
  void note_memory_of_dry_run();
  void finish(KillState state);
  void fail(Rung rung, Error why);
  Attempt& attempt(Rung rung);
  [[nodiscard]] std::optional<Bytes> usage_now() const;
  [[nodiscard]] Bytes remaining() const;
  [[nodiscard]] bool usable(Feature feature) const { return has(options_.usable, feature); }
  [[nodiscard]] Pinning hold() const {
    return usable(Feature::pidfd) ? Pinning::by_pidfd : Pinning::none;
  }

  const VictimContext& context_;
  const std::uint32_t number_;
  const LadderOptions options_;
  const std::optional<pid_t> only_;
  const std::shared_ptr<const PinnedProcesses> pinned_;
  std::optional<Signalled> signalled_by_other_;
  // At the ranking; 0 if unknown. It was not part of the working set that the kill is to lower, so
  // its return does not count.
  const Bytes inactive_file_;
  const Bytes expected_;  // working set at the ranking

  std::shared_ptr<const kernel::CgroupDir> dir_;  // in the memory hierarchy
  std::optional<kernel::CgroupDir> twin_;  // in the cgroup2 hierarchy, when it can be killed there
  std::shared_ptr<const UsageMeter> meter_;
  UniqueFd events_;  // cgroup.events of twin_
  std::vector<Held> held_;

  Outcome outcome_;
  bool outcome_waits_ = false;
  MonotonicTime sweep_due_;
  bool settled_ = false;             // the last process snapshot was quiet
  bool unlisted_ = false;            // it may have missed processes
  bool removed_ = false;             // the cgroup was removed
  bool cgroup_kill_queued_ = false;  // a reaper thread has not reported on it yet
  bool all_watched_ = true;          // every process of held_ is in the epoll
  bool exit_unseen_ = false;         // nothing shows when its last process has freed its memory
  bool forgettable_ = false;
  Reclaiming reclaiming_ = Reclaiming::not_yet;
  std::uint32_t alive_ = 0;                // of held_
  std::uint32_t unheld_ = 0;               // at the last process snapshot
  std::uint32_t left_to_cgroup_kill_ = 0;  // not pinned when it was queued
  std::uint32_t unreaped_ = 0;             // not queued for a reaper yet: the queue was full
  std::optional<MonotonicTime> kill_at_;   // of a terminating one
  MonotonicTime deadline_;                 // of the release, or of the next step towards it
  Bytes lowest_;                           // usage, since it was signalled
  MonotonicTime forget_at_;
  MonotonicTime checked_at_;
};

}  // namespace forestall::actuators
