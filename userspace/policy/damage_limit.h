// SPDX-License-Identifier: Apache-2.0
// Bounds the damage of a series of kills for one threshold: whether a further kill can help.
//
// Kubelet evicts one pod in 10 s. Forestall may kill again at once if memory that is being freed is
// not enough, because several workloads that leak at once exhaust memory within a second. If the
// memory belongs to no candidate (a process outside of the workloads, tmpfs without an owner,
// slab), that speed would cost every candidate. So facts decide before each further kill.
//
//   reason                  a further kill is held back while                         ends
//   1 kills_freed_little    the last victim that ended freed less than half of its    window
//                           working set: no candidate holds what is short
//   2 held_by_no_candidate  since the first kill, memory outside of all candidates    window
//                           grew by at least half of what the kills freed: a victim
//                           would only make room for that growth
//   3 candidates_too_small  all candidates that may be killed hold less than the      window,
//                           threshold lacks                                           last resort
//   4 within_requests       every candidate that may be killed is within its          last resort
//                           declared request: none of them caused the shortage
//   5 kill_limit_reached    Config::kill_limit of the node or of the class is used    its window
//
// window: a kill older than KillLimit::window is forgotten. Last resort: the kernel's OOM killer
// would act next, because a quarter of the threshold's limit is left, for the node of
// MemAvailable + SwapFree. So the worst case is kubelet's, one kill for each window, until then.
// Rule 1 permits one more kill at the last resort: the first victim may have been an exception.
// Rule 4 also holds back the first kill at a watched cgroup, and if memory is charged to a group
// without processes; elsewhere the first kill is kubelet's.
//
// If the kernel's OOM killer would act next, rules 1 and 2 do not spare a candidate that caused the
// present shortage. Otherwise a tenant that leaves memory behind would protect the next leak until
// the kernel selects a victim, protected or not. That candidate is the first in the order of
// eviction that is over its request and took most of the memory since the last kill
// (policy/growth_since_kill.h). If there is none, rule 1 does not spare a candidate that grew since
// the warning (policy/growth_baseline.h) by at least what the threshold lacks. So a candidate
// over its request that does not grow cannot shield one that does. Rules 1 to 4 apply to signals
// with a usage line, rule 5 to every threshold. The list of the BPF guard obeys all of them, and is
// stricter where it may: policy/guard_list.cc.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "model/config.h"
#include "model/decision.h"
#include "model/line.h"
#include "model/observation.h"
#include "policy/growth_since_kill.h"
#include "policy/rank.h"
#include "policy/state.h"

namespace forestall::policy {

// Of several reasons not to act, the most informative one has the highest weight.
[[nodiscard]] int weight_of(Reason reason);

// Whether a decision with this reason holds a kill back.
[[nodiscard]] bool is_held_back(Reason reason);

// Whether a candidate's usage is known and within its declared memory request.
[[nodiscard]] bool is_within_request(const RankKey& key);

// Less than this is accounting noise.
inline constexpr Bytes kMemoryNoise = kGrowthNoiseMin;

// Available amount at which the kernel's OOM killer counts as near.
[[nodiscard]] Bytes last_resort(const Evidence& evidence);

// Available amount at which a kill that is held back is decided again: where the kernel's OOM
// killer is near. Below that at each halving, because growth since then may show a victim.
[[nodiscard]] Bytes decided_again_at(const Evidence& evidence);

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

// When the last kill at the subject of `driving` began; nullopt: none within KillLimit::window.
[[nodiscard]] std::optional<MonotonicTime> last_kill_at(const Config& config,
                                                        const Evidence& driving,
                                                        const Observation& observation);

// What the state has for a threshold; null: nothing.
struct DamageHistory {
  const State::Series* series = nullptr;
  const State::Holdings* holdings = nullptr;
};

class DamageLimit {
 public:
  // What to do instead of killing the first candidate that may be killed.
  struct Choice {
    std::optional<std::size_t> victim;  // index of a candidate
    std::optional<Reason> held;         // without a victim: why none is killed
  };

  // For the threshold of `driving`. `candidates` are all of its subject's, as ranked. All must
  // outlive the object.
  DamageLimit(const Config& config, const Evidence& driving, const Observation& observation,
              const std::vector<Candidate>& candidates, const DamageHistory& history);

  [[nodiscard]] const Damage& facts() const { return facts_; }
  // Why this candidate is not killed; nullopt: it may be.
  [[nodiscard]] std::optional<Reason> reason(const Candidate& victim) const;
  // The victim, given the first candidate that may be killed. It is that candidate, unless facts
  // hold it back or the series of kills has failed so far, and the kernel's OOM killer would act
  // next. Then it is the first in the order of eviction that caused the shortage.
  [[nodiscard]] Choice choose(std::size_t first) const;
  // The earliest time at which time alone could change the reason.
  [[nodiscard]] std::optional<MonotonicTime> until() const { return until_; }

 private:
  using Caused = bool (DamageLimit::*)(const Candidate&) const;

  [[nodiscard]] std::optional<Reason> by_facts(const Candidate& victim) const;
  [[nodiscard]] bool last_kill_fell_short() const;
  // What the kills freed is used outside of all candidates.
  [[nodiscard]] bool outside_took_it() const;
  // Whether it caused the shortage, by its growth since the last kill, or by that since the
  // warning. Always false while the kernel's OOM killer is not near.
  [[nodiscard]] bool took_memory(const Candidate& victim) const;
  [[nodiscard]] bool grew_since_warning(const Candidate& victim) const;
  [[nodiscard]] std::optional<std::size_t> first_that(Caused caused) const;
  // Whether requests count before a kill that kubelet would make.
  [[nodiscard]] bool outranks_kubelet() const;
  void count_kills(const Observation& observation, const State::Series* series);
  void measure(const Observation& observation, const State::Series* series);
  void ends_at(MonotonicTime time);

  const Config& config_;
  const Evidence& driving_;
  const std::vector<Candidate>& candidates_;
  KillRate rate_;
  std::vector<const KillProgress*> at_subject_;  // killed within the window, and ended
  Bytes freed_since_;                            // by kills since the series began
  bool all_within_requests_ = false;
  std::optional<GrowthSinceKill> growth_;  // only if the kernel's OOM killer would act next
  std::optional<MonotonicTime> until_;
  Damage facts_;
};

// Why a kill of the first of `candidates` would be held back if the threshold of `line` were met
// now. nullopt: no fact that exists before the crossing holds it back. The candidates may be the
// head of the ranking only.
[[nodiscard]] std::optional<Reason> hold_at_crossing(const Config& config, const Line& line,
                                                     const std::vector<KillProgress>& kills,
                                                     MonotonicTime now,
                                                     const std::vector<Candidate>& candidates);

}  // namespace forestall::policy
