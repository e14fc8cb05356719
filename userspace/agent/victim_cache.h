// SPDX-License-Identifier: Apache-2.0
// Pre-ranks the first victims before a threshold is met, so that a decision at the crossing takes
// as long on a node of ten workloads as on one of ten thousand.
//
// While no subject is in the warning zone (policy/warning.h) there is no list and no work. Once one
// is, all workloads are sampled, a few at a time so that a wake never waits for long, then ranked.
// The first of the ranking are kept, and their processes are pinned (actuators/pinned_processes.h).
// The list is made again
// - when the headroom has halved,
// - when the set of workloads has changed,
// - and else at most once a second, if usage moved. While it does not, usage is checked at growing
//   intervals: a node may stay in the zone for days.
// Lists after a halving have no budget. All others together take at most 2 % of a CPU, however many
// workloads there are.
//
// While a kill is in flight no list is made: another kill would be decided on all that the subject
// holds, the watchdog has no orders, and the victim's memory would be counted while it returns.
//
// The first sampling of a stay in the zone is the baseline of growth (growth_watch.h), if half of
// the zone was still ahead when it was done. Else a burst is part of it already, and the last
// baseline from before the zone stays in use. When a subject leaves the zone by a quarter of its
// margin, its list and pins are released.
//
// The list is a hint: the crossing is decided on fresh values of the subject and of the first
// candidates, by the same policy, and only if the victim is among those first. Else everything is
// read as if there were no list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actuators/ladder.h"
#include "agent/growth_watch.h"
#include "agent/watchdog.h"
#include "base/clock.h"
#include "exports/loop_work.h"
#include "model/config.h"
#include "model/decision.h"
#include "model/line.h"
#include "model/next_victim.h"
#include "model/observation.h"
#include "model/record.h"
#include "sources/observer.h"

namespace forestall::agent {

// Thread rule: the loop's thread only.
class VictimCache {
 public:
  // Candidates of each subject that may be selected without reading everything again. Kubelet's
  // order seldom changes beyond its head within a second, and no measured crossing took eight
  // victims.
  static constexpr std::size_t kFirst = 8;
  // Subjects with a list at once, the nearest to their threshold first. A crossing of any other
  // subject reads everything.
  static constexpr std::size_t kSubjectsMax = 4;
  // A list that is older is not used.
  static constexpr Duration kGoodFor = std::chrono::seconds(10);

  using SharedSamples = std::shared_ptr<const std::vector<WorkloadSample>>;

  // A subject in the zone.
  struct ZoneSubject {
    CgroupId cgroup;  // inode 0: the node
    std::string path;
    Bytes headroom;  // of the nearest threshold, at the last evaluation
    Bytes margin;    // of the same
    // All of its hard thresholds, far ones too: they count different things (memory.untilOom and
    // memory.available), and while the loop hangs any of them may be met first.
    std::vector<Line> lines;
    std::vector<Candidate> first;  // in the order of eviction; as they were ranked
    std::vector<Bytes> leads;      // policy::Shortlist
    std::vector<Line> as_listed;   // of its lines, when the sampling began
  };

  // All must outlive the object.
  VictimCache(const Clock& clock, sources::Observer& observer, actuators::Ladder& ladder,
              GrowthWatch& growth, exports::LoopWorkTally& work)
      : clock_(clock), observer_(observer), ladder_(ladder), growth_(growth), work_(work) {}

  // The lines as an evaluation armed them.
  void note(std::span<const Line> lines, MonotonicTime now);
  // Another configuration: the lists are void. With the `same_rules` for memory the baseline of
  // growth stays: a reload may only add or remove pods.
  void reconfigured(bool same_rules);
  // One step of the work, when next_due() has come: samples a few workloads, or ranks them and
  // begins to pin the processes of the first. `kills` as in an observation. Returns whether the
  // list is complete with this step, because nothing can be pinned.
  bool work(const Config& config, const std::vector<KillProgress>& kills, MonotonicTime now);
  // Takes what the ladder has pinned. Returns whether the list is complete with this.
  [[nodiscard]] bool take_pins();
  // The first victims of the last list are pinned, and no other list is being made.
  [[nodiscard]] bool complete() const { return listed_at_ && !sampling_ && !ladder_.pinning(); }
  // There is work to do.
  [[nodiscard]] bool working() const { return sampling_.has_value(); }
  // When work() or, if there is none to do, an evaluation is due; nothing outside of the zone.
  [[nodiscard]] std::optional<MonotonicTime> next_due() const;

  // Whether there is a recent list, made from the workloads known now.
  [[nodiscard]] bool ready(MonotonicTime now) const;
  // The number of lists made.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  [[nodiscard]] const std::vector<ZoneSubject>& subjects() const { return subjects_; }
  // Every subject in the zone: their fresh values decide.
  [[nodiscard]] std::span<const CgroupId> watched() const { return watched_; }
  // Puts the listed workloads, as they were sampled, into `observation`.
  void offer(Observation& observation) const;
  // Whether the list suffices for the decision: its one victim is among the first of the subject
  // that drives it, and no unlisted workload can rank before it by now. One could if the subject
  // had grown, beyond the growth of the listed ones, by more than the victim's lead.
  [[nodiscard]] bool covers(const Decision& decision) const;
  // All workloads the list was made from, as they were sampled, with the growth they were ranked
  // by; they never change. Null when there is no list that may be used, or it does not cover all of
  // `subjects` (paths, "/" for the node).
  [[nodiscard]] SharedSamples samples_for(std::span<const std::string> subjects,
                                          MonotonicTime now) const;
  // The same, if they were sampled for this subject ("": all workloads), and when that began.
  [[nodiscard]] SharedSamples samples_of(std::string_view subject) const;
  [[nodiscard]] MonotonicTime sampled_at() const { return sampled_at_; }
  // For each subject in the zone, the first listed candidate that was not killed since. `last` is
  // the decision that was just made; null: none was. `kills` as in an observation, with restarts of
  // units, which killLimit counts.
  [[nodiscard]] std::vector<NextVictim> next_victims(const Config& config, const Decision* last,
                                                     const std::vector<KillProgress>& kills,
                                                     MonotonicTime now) const;
  // For the watchdog: for each threshold the first victim of its subject, if its processes are
  // pinned and nothing holds its kill back (policy/damage_limit.h). `kills` as in an observation.
  [[nodiscard]] std::vector<Watchdog::Order> orders(const Config& config,
                                                    const std::vector<KillProgress>& kills,
                                                    MonotonicTime now) const;
  [[nodiscard]] MonotonicTime valid_until() const;
  // For the record of a decision made on the list. REQUIRES: ready().
  [[nodiscard]] Prepared prepared(MonotonicTime now) const;

 private:
  // A sampling under way.
  struct Sampling {
    Observation observation;
    std::string subject;      // as add_workloads() takes it
    std::vector<Line> lines;  // of the subjects, when it began
    std::size_t next = 0;
    std::uint64_t changes = 0;  // Observer::workload_changes() when it began
  };

  bool update_zone(std::span<const Line> lines);
  void release_list();
  void forget();
  void report_growth(const Config& config, Sampling& sampling, MonotonicTime now);
  [[nodiscard]] Bytes nearest() const;
  [[nodiscard]] std::size_t sample_count() const { return samples_ ? samples_->size() : 0; }
  [[nodiscard]] bool is_outdated(MonotonicTime now) const;
  void begin_sampling(MonotonicTime now);
  [[nodiscard]] bool make_list(const Config& config, MonotonicTime now);
  [[nodiscard]] bool pin_first();
  [[nodiscard]] bool kill_in_flight() const;
  void stop_work();
  [[nodiscard]] bool is_first(CgroupId workload) const;
  [[nodiscard]] NextVictim next_victim(const ZoneSubject& subject,
                                       const std::vector<KillProgress>& kills) const;
  [[nodiscard]] bool stays_first(const ZoneSubject& subject, const Decision& decision) const;

  const Clock& clock_;
  sources::Observer& observer_;
  actuators::Ladder& ladder_;
  GrowthWatch& growth_;
  exports::LoopWorkTally& work_;
  std::vector<ZoneSubject> subjects_;
  std::vector<CgroupId> watched_;
  std::optional<Sampling> sampling_;
  bool wanted_ = false;  // a list, as soon as no kill is in flight

  SharedSamples samples_;               // the list was made from these; null: there is none
  std::string scope_;                   // of those; "": all workloads
  MonotonicTime sampled_at_;            // when their sampling began
  std::vector<WorkloadSample> listed_;  // of all subjects, each once
  std::optional<MonotonicTime> listed_at_;
  Ranking ranking_ = Ranking::kubelet;  // of the list
  std::uint64_t changes_ = 0;           // Observer::workload_changes() of the list
  std::uint64_t generation_ = 0;

  MonotonicTime began_at_;   // the last sampling
  Bytes began_headroom_;     // nearest() then
  MonotonicTime rested_at_;  // from then on another list may be made without a halving
  MonotonicTime evaluation_due_;
  Duration evaluation_interval_{0};
};

}  // namespace forestall::agent
