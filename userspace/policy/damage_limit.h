// SPDX-License-Identifier: Apache-2.0
// Bounds the damage of a series of kills for one threshold: whether a further kill can help.
//
// Kubelet evicts one pod in 10 s. Forestall may kill again at once if memory that is being freed is
// not enough, because several workloads that leak at once exhaust memory within a second. If the
// memory belongs to no candidate (a process outside of the workloads, tmpfs without an owner,
// slab), that speed would cost every candidate. So facts decide before each further kill:
// 1. kills_freed_little: the last victim that ended freed less than half of its working set. What
//    is short is not held by processes of candidates. One more kill follows if the kernel's OOM
//    killer would act next, because the first victim may have been an exception. At that point a
//    workload over its request dies as well if it grew by at least what the threshold lacks, since
//    the warning (policy/growth_baseline.h): otherwise a tenant that leaves memory behind would
//    save the next leak until the kernel chooses a victim. Unknown growth permits no further kill.
// 2. held_by_no_candidate: since the first kill, memory outside of all candidates grew by at least
//    half of what the kills freed. A further victim would only make room for that growth.
// 3. candidates_too_small: all candidates that may be killed hold less than the threshold lacks.
// 4. within_requests: every candidate that may be killed is within its declared request, so none of
//    them caused the shortage. At a watched cgroup, and if memory is charged to a group without
//    processes, this also holds back the first kill; elsewhere the first kill is kubelet's.
// 5. kill_limit_reached: Config::kill_limit, per node and per class of workloads.
// Rules 3 and 4 end when the kernel's OOM killer would act next: when a quarter of the threshold's
// limit is left, for the node of MemAvailable + SwapFree. Rules 1 to 3 forget a kill after
// KillLimit::window. So the worst case is kubelet's, one kill for each window, until the kernel's
// OOM killer is near.
// Rules 1 to 4 apply to signals with a usage line, rule 5 to every threshold. The list of the BPF
// guard obeys all of them, and is stricter where it may: policy/guard_list.cc.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"
#include "policy/state.h"

namespace forestall::policy {

// Whether a decision with this reason holds a kill back.
[[nodiscard]] bool is_held_back(Reason reason);

// Whether a candidate's usage is known and within its declared memory request.
[[nodiscard]] bool is_within_request(const RankKey& key);

// Available amount at which the kernel's OOM killer counts as near.
[[nodiscard]] Bytes last_resort(const Evidence& evidence);

// Config::kill_limit: the kills of the current window, per node and per class of workloads.
class KillRate {
 public:
  KillRate(const Config& config, const Observation& observation);
  [[nodiscard]] bool is_reached(WorkloadClass victim) const;
  void add(WorkloadClass killed);

 private:
  KillLimit limit_;
  std::size_t total_ = 0;
  std::array<std::size_t, kWorkloadClasses.size()> of_class_{};
};

class DamageLimit {
 public:
  // For the threshold of `driving`. `candidates` are all of its subject's, as ranked; `series` is
  // what the state has for it. All must outlive the object.
  DamageLimit(const Config& config, const Evidence& driving, const Observation& observation,
              const std::vector<Candidate>& candidates, const State::Series* series);

  [[nodiscard]] const Damage& facts() const { return facts_; }
  // Why the first candidate that may be killed is not killed; nullopt: it may be.
  [[nodiscard]] std::optional<Reason> reason(const Candidate& victim) const;
  // The earliest time at which time alone could change the reason.
  [[nodiscard]] std::optional<MonotonicTime> until() const { return until_; }

 private:
  [[nodiscard]] std::optional<Reason> by_facts(const Candidate& victim) const;
  // Whether its own growth explains the shortage.
  [[nodiscard]] bool caused_shortage(const Candidate& victim) const;
  // Whether requests count before a kill that kubelet would make.
  [[nodiscard]] bool outranks_kubelet() const;
  void count_kills(const Observation& observation, const State::Series* series);
  void measure(const Observation& observation, const std::vector<Candidate>& candidates,
               const State::Series* series);
  void ends_at(MonotonicTime time);

  const Config& config_;
  const Evidence& driving_;
  KillRate rate_;
  std::vector<const KillProgress*> at_subject_;  // killed within the window, and ended
  Bytes freed_since_;                            // by kills since the series began
  bool all_within_requests_ = false;
  std::optional<MonotonicTime> until_;
  Damage facts_;
};

}  // namespace forestall::policy
