// SPDX-License-Identifier: Apache-2.0
// One look: observe → step → act → arm → record. The core knows no event loop; loop.cc turns
// descriptors and timers into calls of it.
//
// Rules kept here and nowhere else:
// - A wake that saw usage cross its line is looked at once. One that only hints (reclaim, stall,
// PSI,
//   a change of the tree) waits until the nearest line could have been reached since the last look:
//   anybody can make a cgroup reclaim or come and go all day, and this loop runs at real time.
// - Policy answers `inspect` first, so the workloads are read only when a threshold is met; those
//   that were made ready for it (readiness.h) come first, and everything only if they do not do.
// - After a kill it looks again at once, with that kill credited, because another subject may be
//   in need too; a slow victim never holds up the next decision.
// - While a threshold is met and nothing can be done about it, it is looked at again after a short,
//   doubling hold: a line that is met would fire at once, for ever, so sources tell it once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "actuators/ladder.h"
#include "actuators/node_reclaim.h"
#include "agent/foresight.h"
#include "agent/growth_watch.h"
#include "agent/guard_keeper.h"
#include "agent/kills.h"
#include "agent/oom_kills.h"
#include "agent/oom_score_adj_patrol.h"
#include "agent/oom_tellers.h"
#include "agent/own_limit_watch.h"
#include "agent/readiness.h"
#include "agent/watchdog.h"
#include "base/clock.h"
#include "exports/log.h"
#include "exports/sink.h"
#include "model/config.h"
#include "model/record.h"
#include "policy/step.h"
#include "sources/capacity_source.h"
#include "sources/observer.h"
#include "sources/source.h"

namespace forestall::agent {

// What the core works with; all owned by the caller, who outlives it.
struct Parts {
  const Clock* clock = nullptr;
  sources::Observer* observer = nullptr;
  actuators::Ladder* ladder = nullptr;
  actuators::NodeReclaim* reclaim = nullptr;  // null: no container runtime is configured
  std::vector<sources::Source*> sources;
  sources::CapacitySource* capacity = nullptr;  // one of the above, with lines of its own kind
  std::vector<exports::RecordSink*> sinks;
  exports::Log* log = nullptr;
  OomScoreAdjPatrol* patrol = nullptr;
  GuardKeeper* guard = nullptr;         // null: the guard in the kernel is off
  Watchdog* watchdog = nullptr;         // null: nobody acts when the loop hangs
  Foresight* foresight = nullptr;       // null: whom the kernel would kill is not predicted
  actuators::Brakes* brakes = nullptr;  // null: nobody is slowed down
  OomTellers* oom_tellers = nullptr;    // null: nobody tells whom it did kill
  // A source tells of new cgroups; without one, the tree is walked again when candidates are
  // needed.
  bool told_of_cgroups = false;
  // Feature::bpf_timer is in use: while the source that has it could arm every line, nothing is
  // polled but memory.untilOom. REQUIRES: that source comes before those that poll.
  bool told_of_usage = false;
};

// Thread rule: the loop's thread only.
class Core {
 public:
  Core(Parts parts, Config config);

  // First look: finds the workloads, arms every source.
  void start();
  // A source's descriptor became readable, or its time came.
  void source_ready(sources::Source& source);
  // The ladder's descriptor became readable.
  void ladder_ready();
  // Node-level reclaim is over.
  void reclaim_ready();
  // A round of predictions is over.
  void foresight_ready();
  // The watchdog acted in our stead.
  void watchdog_ready();
  // The guard in the kernel has something to tell.
  void guard_ready();
  // The time next_look() named has come.
  void time_passed();
  // A new configuration, already checked. Takes effect with the look it causes.
  void reload(Config config);

  // When time_passed() must be called at the latest.
  [[nodiscard]] MonotonicTime next_look() const;
  [[nodiscard]] std::uint64_t looks() const { return looks_; }
  [[nodiscard]] const Readiness& readiness() const { return readiness_; }
  [[nodiscard]] std::uint64_t kills() const { return kills_.count(); }
  [[nodiscard]] std::uint64_t kernel_kills() const { return kernel_kills_; }

 private:
  // CLOCK_REALTIME, for records.
  [[nodiscard]] static std::int64_t wall_time_ns();
  void note_wake(const Wake& wake);
  void look_or_wait(const std::vector<Wake>& wakes);
  [[nodiscard]] MonotonicTime due(const Wake& wake) const;
  void look(const Wake& wake);
  void look_at_all(const Wake& wake);
  // One observation and decision; true when a kill was begun.
  bool decide(const Wake& wake, MonotonicTime woken);
  // The decision on what was made ready; false when it will not do, and `record` is as it was.
  [[nodiscard]] bool decide_prepared(const Wake& wake, Record& record);
  [[nodiscard]] bool knows_workloads(MonotonicTime now) const;
  [[nodiscard]] Decision decide_on(Record& record);
  void read_workloads(Observation& observation, const Decision& asked, std::string_view subject);
  [[nodiscard]] bool may_signal();
  void take_charge(const Decision& decision);
  void take_shot();
  void note_disk_shortage(const Decision& decision, MonotonicTime at);
  [[nodiscard]] bool name_containers(const Decision& decision, Observation& observation);
  void tell_kills(Record record);
  void tell_kernel_kills();
  [[nodiscard]] std::optional<MonotonicTime> kernel_kills_due() const;
  void tell_look(const Record& record);
  void tell_pass(const Record& record);
  void survey(MonotonicTime now);
  void start_reclaim(const Decision& decision);
  [[nodiscard]] ReclaimState reclaim_state() const;
  void log_look(const StageTimes& stages, const Wake& wake, Reason reason);
  void arm(const Observation& observation, const Decision& decision);
  void note_problems(std::vector<std::string> notes, std::vector<std::string>& last);
  void refresh();
  void recheck();
  [[nodiscard]] Duration tree_age_min() const;
  void look_after_pods();
  void make_ready(MonotonicTime now);
  void post_orders();
  bool may_complete(const WorkloadSample& victim);
  void hold(const Decision& decision, MonotonicTime now);
  void report(const Record& record);
  [[nodiscard]] bool is_repetition(const Decision& decision) const;

  Parts parts_;
  Config config_;
  policy::State state_;
  policy::State before_;  // what state_ was before the last step
  Kills kills_;
  OomKills oom_kills_;
  GrowthWatch growth_;
  OwnLimitWatch own_limits_;
  Readiness readiness_;
  std::vector<std::string> last_notes_;          // of the last arming
  std::vector<std::string> last_refresh_notes_;  // of the last refresh

  std::optional<Decision> last_reported_;
  std::optional<Wake> deferred_;  // a hint that waits for its time
  std::optional<MonotonicTime> deferred_until_;
  MonotonicTime looked_at_;
  Bytes nearest_headroom_;  // of the lines that are not met
  std::optional<MonotonicTime> hold_until_;
  Duration hold_length_{0};
  MonotonicTime recheck_at_;
  // From the last refresh: short after a change of the tree, then longer, up to the interval.
  Duration recheck_in_{0};
  MonotonicTime refreshed_at_;
  Duration walk_length_{0};                // of the last refresh
  std::optional<MonotonicTime> deadline_;  // when time alone changes the answer
  std::optional<MonotonicTime> disk_short_since_;
  MonotonicTime pods_due_;
  std::optional<MonotonicTime> reclaimed_at_;
  bool reclaim_over_ = false;  // since the last decision
  bool tree_changed_ = true;
  std::uint64_t sequence_ = 0;
  std::uint64_t looks_ = 0;
  std::uint64_t reloads_ = 0;
  std::uint64_t kernel_kills_ = 0;
};

}  // namespace forestall::agent
