// SPDX-License-Identifier: Apache-2.0
// When to rescan the cgroup tree for workloads:
//
// - shortly after a reported change, and again at growing intervals up to the configured one. A
//   container runtime creates a cgroup first and writes its limit later, and the kernel has no
//   event for that write;
// - before candidates are ranked, if no source reports new cgroups.
//
// A thread rescans (tree_scanner.h), and the loop takes the result. At a crossing a scan may be
// running, or a reported change may wait for one. If the tree in use is recent, and new cgroups
// cannot change the kill, the kill uses that tree. Otherwise the loop rescans first.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/tree_scanner.h"
#include "agent/watchdog.h"
#include "agent/workload_reporter.h"
#include "base/clock.h"
#include "exports/loop_work.h"
#include "exports/sink.h"
#include "model/config.h"
#include "model/decision.h"
#include "sources/observer.h"

namespace forestall::agent {

// Thread rule: the loop's thread only. What it is made with outlives it.
class TreeRefresher {
 public:
  // `watchdog`: its orders name victims among the workloads known so far, and are withdrawn when a
  // rescan finds others. `has_cgroup_events`: a source reports new cgroups. `rescanned` is called
  // after each rescan.
  TreeRefresher(const Clock& clock, sources::Observer& observer, TreeScanner& scanner,
                exports::Log& log, LoopWatchdog& watchdog, exports::LoopWorkTally& work,
                const Config& config, bool has_cgroup_events, std::function<void()> rescanned)
      : clock_(clock),
        observer_(observer),
        scanner_(scanner),
        watchdog_(watchdog),
        work_(work),
        config_(config),
        has_cgroup_events_(has_cgroup_events),
        rescanned_(std::move(rescanned)),
        reporter_(log) {}

  // A source reports that cgroups were created or removed, `at` that time.
  void note_change(MonotonicTime at);
  [[nodiscard]] bool changed() const { return changed_since_.has_value(); }
  // When a reported change may be followed by a rescan, however many cgroups come and go.
  [[nodiscard]] MonotonicTime rescan_at() const;

  // Rescans now, on this thread.
  void refresh();
  // The same after a change, and for the first time. Further rescans follow at growing intervals.
  void refresh_changed();
  // As refresh_changed(), on the scanner's thread if there is one. False: the result comes later.
  [[nodiscard]] bool scan_changed();
  // recheck_at() has come: rescans unless the tree has settled and its changes are reported.
  void recheck();
  // The scanner's descriptor became readable. Whether there is another tree.
  [[nodiscard]] bool take_scan();
  [[nodiscard]] MonotonicTime recheck_at() const { return recheck_at_; }
  // The end of the last rescan.
  [[nodiscard]] MonotonicTime refreshed_at() const { return refreshed_at_; }

  // Where the facts of the pods found by the last rescan come from.
  [[nodiscard]] const exports::PodFactCounts& pod_facts() const { return reporter_.pod_facts(); }

  // Before all candidates are read for a kill. `urgent`: memory is short. False: the tree may lack
  // a new workload, so call allows() before the kill.
  [[nodiscard]] bool refresh_before_kill(bool urgent);
  // Whether cgroups that are newer than the tree cannot change the kill (unlisted_cgroups.h).
  [[nodiscard]] bool allows(const Decision& decision) const;
  // Whether no protected workload that the tree lacks can be inside of the victim.
  [[nodiscard]] bool has_all_inside(const Workload& victim);
  // Before a list of the next victims is sampled.
  void refresh_if_stale(MonotonicTime now);
  // Whether the tree has all workloads. A new one may be protected and inside of a listed one, so a
  // list is used only if this is true, or if allows() is called before the kill.
  [[nodiscard]] bool has_all_workloads(MonotonicTime now);
  // The tree in use is recent enough for a kill that allows() checks.
  [[nodiscard]] bool is_recent(MonotonicTime now) const;

 private:
  // Takes what inotify reports, which no event wakes the loop for.
  void note_new_cgroups();
  [[nodiscard]] bool is_listed(MonotonicTime at);
  void scan();
  void listed(const std::vector<SourceNote>& notes, std::uint64_t changes_before);
  // A change was reported that is not part of the tree in use.
  [[nodiscard]] bool lacks_change() const { return changed_since_ || scanned_since_; }
  [[nodiscard]] bool is_stale(MonotonicTime now) const;
  [[nodiscard]] Duration age_min() const;
  // Only without a source that reports new cgroups.
  [[nodiscard]] Duration age_max() const;

  const Clock& clock_;
  sources::Observer& observer_;
  TreeScanner& scanner_;
  LoopWatchdog& watchdog_;
  exports::LoopWorkTally& work_;
  const Config& config_;
  const bool has_cgroup_events_;
  const std::function<void()> rescanned_;
  WorkloadReporter reporter_;
  // The first change that was reported and is not part of a rescan.
  std::optional<MonotonicTime> changed_since_ = MonotonicTime{};
  std::optional<MonotonicTime> scan_began_;     // a scan runs
  std::optional<MonotonicTime> scanned_since_;  // the first change that is part of it
  // The last change that other sources than inotify reported.
  std::optional<MonotonicTime> noted_at_;
  MonotonicTime listed_from_;  // when the rescan of the tree in use began
  MonotonicTime refreshed_at_;
  Duration scan_length_{0};  // of the last rescan; CPU time on the scanner's thread
  MonotonicTime recheck_at_;
  // From the last rescan: short after a change of the tree, then longer, up to the interval.
  Duration recheck_in_{0};
};

}  // namespace forestall::agent
