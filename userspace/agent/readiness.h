// SPDX-License-Identifier: Apache-2.0
// What is known before a threshold is met, so that a decision at the crossing costs the same on a
// node of ten workloads and of ten thousand: who would be evicted, ranked of late, a few of them.
//
// While nothing is in the warning zone (policy/warning.h) there is none of it and nothing wakes.
// Once something is, all workloads are sampled, a few at a time so that a wake never waits for
// long, then ranked; the first of the ranking are kept, and what it takes to kill them is held
// (actuators/grip.h). That is done again
// - when half of what was left until the threshold is gone,
// - when the workloads are others than before,
// - and else at most once a second, if usage moved, which is looked at ever more seldom while it
//   does not: a node may stay in the zone for days.
// Only the halvings are free to cost what they cost: else no more than 2 % of a CPU goes into
// lists, however many workloads there are.
// The first sampling of a stay in the zone is what growth is counted from (growth_watch.h), if half
// of the zone was still ahead when it was done: else a burst is part of it already, and the last
// calm look goes on being what it is counted from.
// Whoever leaves the zone by a quarter of its margin gives it all back.
//
// The list is a hint like any other: the crossing is decided on fresh values of the subject and of
// the first candidates, by the same policy, and only if its victim is among those first. Else
// everything is read as if there had been no list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actuators/ladder.h"
#include "agent/growth_watch.h"
#include "agent/watchdog.h"
#include "base/clock.h"
#include "model/config.h"
#include "model/decision.h"
#include "model/line.h"
#include "model/observation.h"
#include "model/record.h"
#include "sources/observer.h"

namespace forestall::agent {

// Thread rule: the loop's thread only.
class Readiness {
 public:
  // Candidates of each subject that may be chosen without reading everything again. Kubelet's order
  // seldom changes beyond its head within a second; eight is more than one crossing ever took.
  static constexpr std::size_t kFirst = 8;
  // Subjects near their threshold at once, the nearest first; with more there is no list for the
  // others, and their crossings take the long way.
  static constexpr std::size_t kSubjectsMax = 4;
  // A list that is older is not used.
  static constexpr Duration kGoodFor = std::chrono::seconds(10);

  // Those in the zone that are made ready for.
  struct Subject {
    CgroupId cgroup;  // inode 0: the node
    std::string path;
    Bytes headroom;  // of the nearest threshold, at the last look
    Bytes margin;    // of the same
    // All hard thresholds about it, far ones too: they count different things (memory.untilOom
    // beside memory.available), and while the loop hangs any of them may be met first.
    std::vector<Line> lines;
    std::vector<Candidate> first;  // in the order of eviction; as they were ranked
    std::vector<Bytes> leads;      // policy::Shortlist
    std::vector<Line> as_listed;   // of its lines, when the sampling began
  };

  // All must outlive the object.
  Readiness(sources::Observer& observer, actuators::Ladder& ladder, GrowthWatch& growth)
      : observer_(observer), ladder_(ladder), growth_(growth) {}

  // What the lines were at a look that armed them.
  void note(std::span<const Line> lines, MonotonicTime now);
  // Another configuration: what was made ready is void. With the `same_rules` for what is short of
  // memory, growth goes on being told from where it was: pods come and go by reload, too.
  void reconfigured(bool same_rules);
  // A step of the work, when next_look() has come: samples a few workloads, ranks them, or holds
  // one of them. `kills` as in an observation.
  void work(const Config& config, const std::vector<KillProgress>& kills, MonotonicTime now);
  // There is work to do.
  [[nodiscard]] bool working() const { return sampling_ || to_hold_ < listed_.size(); }
  // When work() or, if there is none to do, a look is due; nothing outside of the zone.
  [[nodiscard]] std::optional<MonotonicTime> next_look() const;

  // Whether there is a list that may be used: of late, and of the workloads known now.
  [[nodiscard]] bool ready(MonotonicTime now) const;
  // Counts the lists made.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  [[nodiscard]] const std::vector<Subject>& subjects() const { return subjects_; }
  // Whose fresh values decide: every subject in the zone.
  [[nodiscard]] std::span<const CgroupId> watched() const { return watched_; }
  // Puts the listed workloads, as they were sampled, into `observation`.
  void offer(Observation& observation) const;
  // Whether the list allows to act on the decision: its victims are among the first of the subject
  // that drives it, who may be killed without asking how everybody else is doing: the subject has
  // not grown by so much, beyond what those who were listed did, that anybody else can be before
  // them by now.
  [[nodiscard]] bool vouches_for(const Decision& decision) const;
  // All workloads the list was made from, as they were sampled, with the growth they were ranked
  // by: for whoever ranks for the same subjects. Null when there is no list that may be used, or it
  // knows nothing of somebody a subject is about. `subjects`: their paths, "/" for the node.
  [[nodiscard]] const std::vector<WorkloadSample>* samples_for(
      std::span<const std::string> subjects, MonotonicTime now) const;
  // What the watchdog is to do if the loop cannot, for each threshold: the first of its subject, if
  // it is held.
  [[nodiscard]] std::vector<Watchdog::Order> orders() const;
  [[nodiscard]] MonotonicTime good_until() const;
  // What a record says of a decision made on the list. REQUIRES: ready().
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
  void give_back();
  void forget();
  void tell_growth(const Config& config, Sampling& sampling, MonotonicTime now);
  [[nodiscard]] Bytes nearest() const;
  [[nodiscard]] bool is_outdated(MonotonicTime now) const;
  void begin_sampling(MonotonicTime now);
  void make_list(const Config& config, MonotonicTime now);
  void hold_next();
  [[nodiscard]] bool is_first(CgroupId workload) const;
  [[nodiscard]] bool others_are_behind(const Subject& subject, const Decision& decision) const;

  sources::Observer& observer_;
  actuators::Ladder& ladder_;
  GrowthWatch& growth_;
  std::vector<Subject> subjects_;
  std::vector<CgroupId> watched_;
  std::optional<Sampling> sampling_;

  std::vector<WorkloadSample> samples_;  // what the list was made from
  std::string scope_;                    // of those; "": all workloads
  std::vector<WorkloadSample> listed_;   // of all subjects, each once
  std::optional<MonotonicTime> listed_at_;
  std::size_t to_hold_ = 0;  // index into listed_
  // Ranked by growth: who grew since the list was made need not be among the first of it.
  bool by_growth_ = false;
  std::uint64_t changes_ = 0;  // Observer::workload_changes() of the list
  std::uint64_t generation_ = 0;

  MonotonicTime began_at_;   // the last sampling
  Bytes began_headroom_;     // nearest() then
  MonotonicTime rested_at_;  // another list may be made but for a halving
  MonotonicTime look_due_;
  Duration look_interval_{0};
};

}  // namespace forestall::agent
