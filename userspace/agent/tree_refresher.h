// SPDX-License-Identifier: Apache-2.0
// When to rescan the cgroup tree for workloads: soon after a change was reported, now and then for
// what no event reports, and before candidates are ranked where no source reports new cgroups.
//
// A container runtime makes a cgroup first and writes its limit later, and the kernel has no event
// for that write. So the tree is rescanned shortly after a change, and again at growing intervals
// up to the configured one.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "agent/problem_log.h"
#include "agent/watchdog.h"
#include "base/clock.h"
#include "exports/loop_work.h"
#include "exports/sink.h"
#include "model/config.h"
#include "sources/observer.h"

namespace forestall::agent {

// Thread rule: the loop's thread only. What it is made with outlives it.
class TreeRefresher {
 public:
  // `watchdog`: its orders name victims among the workloads known so far, and are withdrawn when a
  // rescan finds others. `has_cgroup_events`: a source reports new cgroups. `rescanned` is called
  // after each rescan.
  TreeRefresher(const Clock& clock, sources::Observer& observer, exports::Log& log,
                LoopWatchdog& watchdog, exports::LoopWorkTally& work, const Config& config,
                bool has_cgroup_events, std::function<void()> rescanned)
      : clock_(clock),
        observer_(observer),
        watchdog_(watchdog),
        work_(work),
        config_(config),
        has_cgroup_events_(has_cgroup_events),
        rescanned_(std::move(rescanned)),
        log_(log),
        problems_(log) {}

  // A source reports that cgroups came or went.
  void note_change() { changed_ = true; }
  [[nodiscard]] bool changed() const { return changed_; }
  // When a reported change may be followed by a rescan, however many cgroups come and go.
  [[nodiscard]] MonotonicTime change_due() const { return refreshed_at_ + age_min(); }

  // Rescans now.
  void refresh();
  // The same after a change, and for the first time: further rescans follow while it settles.
  void refresh_changed();
  // recheck_at() has come: rescans unless the tree has settled and its changes are reported.
  void recheck();
  [[nodiscard]] MonotonicTime recheck_at() const { return recheck_at_; }
  // The end of the last rescan.
  [[nodiscard]] MonotonicTime refreshed_at() const { return refreshed_at_; }

  // Where the facts of the pods found by the last rescan come from.
  [[nodiscard]] const exports::PodFactCounts& pod_facts() const { return pod_facts_; }

  // Before all candidates are read.
  void refresh_if_changed_or_stale();
  // Before a list of the next victims is sampled.
  void refresh_if_stale(MonotonicTime now);
  // Whether a workload that came lately would be known. A new one may be protected and lie inside
  // a listed one, so a list is used only then.
  [[nodiscard]] bool knows_workloads(MonotonicTime now);

 private:
  // Takes what inotify reports, which no event wakes the loop for.
  void note_new_cgroups();
  [[nodiscard]] Duration age_min() const;
  // Only without a source that reports new cgroups.
  [[nodiscard]] Duration age_max() const;
  void count_pod_facts();
  void report_candidates();

  const Clock& clock_;
  sources::Observer& observer_;
  LoopWatchdog& watchdog_;
  exports::LoopWorkTally& work_;
  const Config& config_;
  const bool has_cgroup_events_;
  const std::function<void()> rescanned_;
  exports::Log& log_;
  ProblemLog problems_;
  exports::PodFactCounts pod_facts_;
  std::optional<bool> had_candidates_;  // nullopt: not scanned yet
  bool changed_ = true;
  MonotonicTime refreshed_at_;
  Duration scan_length_{0};  // of the last rescan
  MonotonicTime recheck_at_;
  // From the last rescan: short after a change of the tree, then longer, up to the interval.
  Duration recheck_in_{0};
};

}  // namespace forestall::agent
