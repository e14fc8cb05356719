// SPDX-License-Identifier: Apache-2.0
// Makes the guard's standing list (policy/standing_list.h), for an agent that is stopped or starved
// while memory is not short: the regular lists exist only near a threshold.
//
// A list is made every 10 s, and within a second after workloads have come or gone. While a list
// takes more than 20 ms, it is made less often, to stay below 0.2 % of a CPU, but every 30 s. One
// during which workloads come or go is dropped and the next one is finished all the same, so two
// lists are less than 60 s apart. It expires after Config::guard_expiry. The loop samples the
// workloads, in turns between which it serves other events; a thread ranks them and approves
// processes (standing_list_job.h). The list is published with an evaluation, whose readings place
// the line, or dropped if that comes late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actuators/never_kill.h"
#include "agent/guard_list_thread.h"
#include "agent/guard_parts.h"
#include "agent/standing_list_job.h"
#include "base/clock.h"
#include "model/config.h"
#include "model/kill.h"
#include "model/record.h"
#include "policy/guard_list.h"
#include "policy/standing_list.h"

namespace forestall::agent {

// Thread rule: the loop's thread only.
class StandingGuard {
 public:
  // While the loop decides itself, which it does at least once a second near a threshold.
  static constexpr Duration kPostponed = std::chrono::seconds(5);

  // `thread` outlives the object.
  StandingGuard(const GuardParts& parts, GuardListThread& thread)
      : parts_(parts), thread_(thread) {}

  // An evaluation found no subject near a threshold: publishes what is prepared.
  void evaluated(const Config& config, const Record& record);
  // An evaluation found one: the list stays until it expires, unless a victim is being killed. It
  // does not fire while evaluations go on, because they may spare a workload for reasons that
  // the guard does not have.
  void short_of_memory(const std::vector<KillProgress>& kills);
  // The loop is about to kill for a threshold. False: the list has fired, and its report is to be
  // taken first.
  [[nodiscard]] bool claim();
  // The list and what is prepared are void. order() stays: the list may have fired.
  void withdraw();

  // Whether there is something that a list can be for.
  [[nodiscard]] bool has_subject() const { return subject_.has_value(); }
  // When work() is due; nothing: there is no subject, the thread works, or a list waits for
  // evaluated().
  [[nodiscard]] std::optional<MonotonicTime> preparation_due() const;
  // A turn of the preparation. REQUIRES: preparation_due().
  void work(const std::shared_ptr<const Config>& config,
            const std::shared_ptr<const actuators::NeverKill>& never_kill);
  // Takes what the thread has done.
  void take_job();
  // When evaluated() is due; nothing: no list is prepared.
  [[nodiscard]] std::optional<MonotonicTime> evaluation_due() const;

  [[nodiscard]] bool in_force() const { return published_ && published_->in_force; }
  // What the last list was made of; null: there was none.
  [[nodiscard]] const policy::GuardOrder* order() const {
    return published_ ? &published_->order : nullptr;
  }
  // The evaluation that it was published with. REQUIRES: order().
  [[nodiscard]] const Record& made_from() const { return published_->made_from; }

 private:
  struct Preparation {
    MonotonicTime began;
    MonotonicTime turn_due;     // at once
    std::uint64_t changes = 0;  // Observer::workload_changes() when it began
    Observation read = {};
    std::size_t next_sample = 0;
    std::shared_ptr<StandingListJob> job = nullptr;  // once all are sampled
    Bytes used = {};  // of the subject, as the list counts it, before the workloads were approved
    Duration took{0};
  };
  struct Published {
    policy::GuardOrder order;
    Record made_from;
    bool in_force = true;
  };

  [[nodiscard]] bool abandon_if_void(MonotonicTime now);
  void drop_preparations();
  void postpone();
  [[nodiscard]] std::vector<CgroupId> left_out();
  void leave_out(CgroupId subject, Duration time);
  void publish(const Config& config, const Record& record, const policy::StandingSubject& subject);
  [[nodiscard]] std::optional<Bytes> used_by(const policy::StandingSubject& subject) const;
  [[nodiscard]] bool place(const policy::StandingSubject& subject, const NodeSample& node,
                           Preparation& prepared);
  void keep(Preparation prepared, const Record& record, const policy::StandingSubject& subject);

  const GuardParts parts_;
  GuardListThread& thread_;
  std::optional<policy::StandingSubject> subject_;  // of the last evaluation
  std::vector<KillProgress> kills_;                 // then
  std::optional<Preparation> preparation_;
  bool abandoned_ = false;  // the last one was, because workloads came or went
  std::optional<Preparation> prepared_;
  std::optional<Published> published_;
  std::uint64_t changes_ = 0;  // as in Preparation, of the last list
  MonotonicTime due_;          // of the next preparation, if no workload comes or goes
  MonotonicTime rested_at_;    // the earliest time of the next preparation
  // Subjects that the programs cannot compare, each until a time: the node, because they count its
  // memory otherwise than its file; cgroups whose own limit is not their capacity.
  std::map<CgroupId, MonotonicTime> left_out_;
  int node_differs_ = 0;   // how often in a row it did
  bool reported_ = false;  // that a list is in force
};

}  // namespace forestall::agent
