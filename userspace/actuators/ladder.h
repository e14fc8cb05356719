// SPDX-License-Identifier: Apache-2.0
// The kill ladder: a non-blocking state machine per victim. The loop calls begin() once and
// advance() on every wake of fd() or past next_due(); it never waits for a victim.
//
// Order of a hard kill:
// 1. Verify that the cgroup is still the ranked one.
// 2. Open a pidfd for each of its processes.
// 3. SIGKILL by pidfd. Where the kernel's own lists can be read, this comes first, for as many
// processes as kFirstBlowMax (first_blow.h).
// 4. On worker threads, repeated until nothing is left: cgroup.kill (v2) for processes forked
// meanwhile, and process_mrelease.
// 5. When the last process exited, reclaim what stays charged to the cgroup, on a thread.
// 6. Complete when the last pidfd polls readable or the cgroup is empty, and its memory is back
// (usage_meter.h has the rule).
//
// A stuck kill is still watched, and has a second outcome (released) if its memory comes back
// later. A dry run ends in `in_flight` at once, without a time of signalling.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actuators/left_behind_reclaim.h"
#include "actuators/pinned_processes.h"
#include "actuators/process_lister.h"
#include "base/clock.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/held_cgroup.h"
#include "model/feature.h"
#include "model/kill.h"
#include "model/outcome.h"
#include "model/workload.h"

namespace forestall::actuators {

// A cgroup that is held open; nullopt: it is not.
using HeldCgroups = std::function<std::optional<kernel::HeldCgroup>(CgroupId cgroup)>;

struct LadderOptions {
  bool dry_run = false;
  FeatureSet usable;  // of cgroup_kill, pidfd, process_mrelease
  Duration release_timeout = std::chrono::milliseconds(500);
  std::size_t reaper_threads = 0;       // 0: two per CPU, 4 to 16; read by create() only
  std::size_t reaper_queue_max = 1024;  // jobs not yet reported; read by create() only
  // Never signalled, whatever the decision: pid 1, kernel threads, this process and its ancestors.
};

// A SIGKILL that another part of the agent already sent to all processes in the victim's cgroup.
struct Signalled {
  MonotonicTime at;
  std::uint32_t processes = 0;
  Bytes usage_before;
};

// Thread rule: all calls come from the loop's thread; the ladder owns its other threads.
class Ladder {
 public:
  static Result<std::unique_ptr<Ladder>> create(const kernel::CgroupTree& tree, const Clock& clock,
                                                LadderOptions options);
  ~Ladder();

  // Applies to kills that begin afterwards (reload).
  void set_options(const LadderOptions& options);
  // Whether kills that begin now send no signals.
  [[nodiscard]] bool dry_run() const;

  // From now on processes with a thread in one of these groups are not signalled (members.h). If
  // they are others than before, all pins are released: those have the former ones.
  void protect(std::shared_ptr<const ProtectedGroups> groups);

  // Verifies, signals and starts reaping, without waiting. The only path lookup is that of the
  // victim's own cgroup, unless take_cgroups_from() has it; with list_processes_by() it follows the
  // first signal. Measured from a
  // SCHED_FIFO thread (tests/bench/ladder_bench.cc): about 0.12 ms to the SIGKILL of one process
  // and 0.03 ms per further one, since all are opened before the first is killed. If the cgroup is
  // already being killed, the outcome is `failed` and the running kill continues.
  //
  // With a grace above 0 every process gets SIGTERM; those left when it expires get SIGKILL.
  // begin() does not wait for it. For a victim in its grace, begin() shortens that to at most the
  // new grace: a hard eviction pre-empts a soft one.
  // Returns whether a kill was begun: false if one of this cgroup is under way.
  bool begin(const WorkloadSample& victim, Duration grace = Duration::zero());
  // Kills at once what was started in the cgroup after its kill had ended with the exit of every
  // process. Both count as one kill: progress() keeps the start, the expected and the freed memory
  // of the earlier one. False, without effect: there is no such kill, kills are dry runs, or no
  // process was left to signal.
  bool repeat(const WorkloadSample& victim);
  // Completes a kill that was already signalled: signals the remaining processes, reaps, watches,
  // and reports an outcome with these times and figures. False: a kill of the cgroup was running;
  // it continues, and its outcome includes them.
  bool complete(const WorkloadSample& victim, const Signalled& signalled);

  // From now on kills use what this holds open, on the loop's thread, instead of the cgroup's path.
  void take_cgroups_from(HeldCgroups held);

  // From now on kills list processes by this, on the loop's thread, and those without a grace send
  // their first SIGKILL by it (first_blow.h).
  void list_processes_by(ProcessLister lister);

  // To be called at each evaluation: remembers how long the host has been suspended, for
  // complete().
  void note_suspends();

  // Begins to reclaim what a workload without processes has left behind, on a thread. False if
  // nothing was started: see LeftBehindReclaim; also in a dry run.
  bool reclaim(const WorkloadSample& left_behind);
  // Results since the last call.
  [[nodiscard]] std::vector<Reclaimed> take_reclaimed();

  // Begins to pin these victims, in this order, on a thread; when that is done, all others are
  // released. begin() then needs one read of cgroup.procs before SIGKILL. Limits: 64 processes per
  // victim, 512 in total. After a failure begin() does all the work itself. False: nothing can be
  // pinned, because the kernel has no pidfds.
  bool pin(std::vector<Workload> victims);
  // Whether a pin() is under way.
  [[nodiscard]] bool pinning() const;
  // Polls readable once collect_pins() has something to do.
  [[nodiscard]] int pins_fd() const;
  // Takes what was pinned. Returns whether something was.
  [[nodiscard]] bool collect_pins();
  // Releases all, and those that are being pinned.
  void release_pins();
  // The pinned state of the cgroup; null if none.
  [[nodiscard]] std::shared_ptr<const PinnedProcesses> pinned_of(CgroupId cgroup) const;

  // Polls readable when a process exited or a reaper thread reported.
  [[nodiscard]] int fd() const;
  [[nodiscard]] std::optional<MonotonicTime> next_due() const;
  // Advances every kill.
  void advance();

  // Running and recent kills, for the next observation. A finished one (released, stuck, failed) is
  // listed until `forget_after` (30 s) passed, because kubelet waits that long for a pod's cleanup,
  // and the policy counts recent kills. A dry run is listed equally long: in flight, with all
  // memory remaining. The policy then waits as after a real kill instead of selecting the next
  // candidate on every wake. The remaining memory is working set: current usage minus the inactive
  // file pages at the ranking.
  [[nodiscard]] std::vector<KillProgress> progress() const;
  // Processes that the last kill of the cgroup, if it is listed, has signalled so far.
  [[nodiscard]] std::uint32_t signalled(CgroupId cgroup) const;
  // Outcomes completed since the last call, each exactly once. begin() may already complete one: a
  // refusal or a dry run ends at once.
  [[nodiscard]] std::vector<Outcome> take_outcomes();

  // Runs the whole path once on a child process created for it, so that code pages and library
  // symbols are resident before memory is short. Returns what was refused. Takes some milliseconds,
  // at most 2 s. REQUIRES: no begin() before it.
  [[nodiscard]] Result<void> warm_up();

 private:
  class Machine;
  explicit Ladder(std::unique_ptr<Machine> machine);
  std::unique_ptr<Machine> machine_;
};

}  // namespace forestall::actuators
