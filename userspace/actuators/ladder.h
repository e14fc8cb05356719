// SPDX-License-Identifier: Apache-2.0
// The kill ladder: a non-blocking state machine per victim. The loop calls begin() once and
// advance() on every wake of fd() or past next_look(); it never waits for a victim.
//
// Order of the hard path (design.md §6): re-verify that the cgroup is still the one that was
// ranked → open a pidfd for each of its processes → SIGKILL by pidfd → cgroup.kill (v2) for whoever
// was forked meanwhile, and process_mrelease, both on worker threads, repeated until nothing is
// left → completion when the last pidfd polls readable / the cgroup is empty and its memory is back
// (usage_meter.h has the rule).
//
// A kill that got stuck is watched on, and has a second outcome (released) when its memory comes
// back after all. A dry run ends in `in_flight` at once, without a time of signalling.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actuators/grip.h"
#include "base/clock.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/feature.h"
#include "model/kill.h"
#include "model/outcome.h"
#include "model/workload.h"

namespace forestall::actuators {

struct LadderOptions {
  bool dry_run = false;
  FeatureSet usable;  // of cgroup_kill, pidfd, process_mrelease
  Duration release_timeout = std::chrono::milliseconds(500);
  std::size_t reaper_threads = 2;       // read by create() only
  std::size_t reaper_queue_max = 1024;  // jobs not yet reported; read by create() only
  // Never signalled whatever the decision says: pid 1, kernel threads, this process, its parents.
};

// A SIGKILL that somebody else of ours sent already, to all that was in the victim's cgroup then.
struct Signalled {
  MonotonicTime at;
  std::uint32_t processes = 0;
  Bytes usage_before;
};

// Thread rule: all calls come from the loop's thread; the reaper threads are the ladder's own.
class Ladder {
 public:
  static Result<std::unique_ptr<Ladder>> create(const kernel::CgroupTree& tree, const Clock& clock,
                                                LadderOptions options);
  ~Ladder();

  // Applies to kills that begin afterwards (reload).
  void set_options(const LadderOptions& options);

  // Verifies, signals and starts reaping, without waiting and without any path lookup beyond the
  // victim's own cgroup. Measured from a SCHED_FIFO thread (tests/bench/ladder_bench.cc): about
  // 0.12 ms to the SIGKILL of one process, 0.03 ms more for each further one, since all are held
  // before the first is killed. A cgroup that is being killed already is
  // not begun again: the outcome is `failed` then, and the kill under way goes on.
  //
  // With a grace above 0 every process gets SIGTERM, and whoever is left when it is over SIGKILL;
  // nothing waits for it. For a victim in its grace, begin() ends that after at most the new
  // grace: a hard eviction pre-empts a soft one.
  void begin(const WorkloadSample& victim, Duration grace = Duration::zero());
  // Completes a kill that was signalled already: signals whoever is left, reaps, watches, and has
  // an outcome as any other kill, with these times and figures. False: a kill of it was under way;
  // that one goes on, and its outcome has them.
  bool complete(const WorkloadSample& victim, const Signalled& signalled);

  // Opens in advance what begin() of this victim needs, or brings it up to date: with that, SIGKILL
  // is one reading of its cgroup.procs away. Costs what begin() saves; nothing is done with it.
  // Descriptors are bounded: 64 processes a victim and 512 in all. A failure leaves begin() to do
  // it all itself.
  void hold(const WorkloadSample& sample);
  // Lets go of everybody but these.
  void release_all_but(std::span<const CgroupId> kept);
  // What is held of it; null: nothing.
  [[nodiscard]] std::shared_ptr<const Grip> grip_of(CgroupId cgroup) const;

  // Polls readable when a process exited or a reaper thread reported.
  [[nodiscard]] int fd() const;
  [[nodiscard]] std::optional<MonotonicTime> next_look() const;
  // Moves every kill forward.
  void advance();

  // Kills under way and recent ones, for the next observation. One that is over (released, stuck,
  // failed) is listed until its cgroup is gone or `forget_after` (30 s) passed: kubelet waits as
  // long for a pod's cleanup. A dry run is listed for as long, in flight with all that the kill
  // would have returned remaining: so the policy waits as it would for the real kill, instead of
  // taking the next candidate on every wake. What remains is working set: usage now, less the
  // inactive file pages at the ranking.
  [[nodiscard]] std::vector<KillProgress> progress() const;
  // Outcomes completed since the last call, each exactly once. begin() may complete one already:
  // a refusal and a dry run are over at once.
  [[nodiscard]] std::vector<Outcome> take_outcomes();

  // Runs the whole path once on nothing (a child process made for it) so that its pages and
  // library symbols are resident before memory is short. Returns what was refused. Takes some
  // milliseconds, 2 s at worst. REQUIRES: no begin() before it.
  [[nodiscard]] Result<void> warm_up();

 private:
  class Machine;
  explicit Ladder(std::unique_ptr<Machine> machine);
  std::unique_ptr<Machine> machine_;
};

}  // namespace forestall::actuators
