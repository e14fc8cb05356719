// SPDX-License-Identifier: Apache-2.0
// A decision: what is to be done, the compared values and all considered candidates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "model/condition.h"
#include "model/eviction.h"
#include "model/rule_report.h"
#include "model/threshold.h"
#include "model/workload.h"

namespace forestall {

enum class Action : std::uint8_t {
  none,     // nothing to do
  inspect,  // a threshold is met: read the workloads and evaluate again
  kill,     // kill every candidate named in `evictions`
  reclaim,  // run the steps of `node_reclaim`, read the filesystems and evaluate again
};

enum class Reason : std::uint8_t {
  no_data,  // no configured signal could be computed
  no_threshold_met,
  release_pending,        // met, but memory that is being released will satisfy it
  workloads_unread,       // met: the workloads are needed (action inspect)
  no_candidates,          // met, but there is no workload under the threshold's subject
  all_protected,          // met, but every candidate is protected, empty or already tried
  threshold_met,          // action kill
  local_storage_limit,    // action kill: pods beyond a limit on local storage
  in_grace,               // only soft thresholds are met, within their grace period
  statistics_not_newer,   // met, but on readings that were already acted on
  cleanup_pending,        // met, but a victim of the same resource is not gone yet
  disk_usage_unread,      // met: the disk usage of pods is needed
  node_reclaim,           // action reclaim, or reclaim is running
  node_reclaim_sufficed,  // after node-level reclaim no threshold is met
  own_limit_near,         // workloads near a limit of their own, which causes no eviction
  guard_shot,             // action kill: completes a kill by the guard in the kernel
  // Met, and a further kill is held back (policy/damage_limit.h):
  kills_freed_little,    // the last victim freed less than half of what it appeared to hold
  held_by_no_candidate,  // what kills freed is used outside of all candidates
  candidates_too_small,  // all remaining candidates together hold less than is needed
  within_requests,       // every remaining candidate is within its request
  kill_limit_reached,    // Config::kill_limit
  ruleset,               // action kill: of a ruleset
  pod_runs_again,        // action kill: a container of an evicted pod was started again
  container_pressure,    // action kill: a container stays under memory pressure at its own limit
};

[[nodiscard]] std::string_view to_string(Action action);
[[nodiscard]] std::string_view to_string(Reason reason);

// Values compared for one threshold at one time, in the signal's unit: bytes, inodes or tasks.
struct Evidence {
  Threshold threshold;
  std::string subject;  // "node", or the path of the cgroup
  CgroupId cgroup;      // inode 0 for the node
  std::int64_t capacity = 0;
  std::int64_t available = 0;
  Quantity limit;                    // the threshold at this capacity
  std::int64_t pending_release = 0;  // memory of kills in flight under this subject
  bool met = false;  // available + pending_release < limit (+ minimum reclaim while driving)
  MonotonicTime at;  // of the reading
  // Since when it is met without interruption, ignoring pending_release; nullopt: not met.
  std::optional<MonotonicTime> first_met;
  bool driving = false;  // met for its whole grace period

  // Whether it can cause an eviction. A threshold that only warns or slows down may be met for
  // days.
  [[nodiscard]] bool requires_eviction() const {
    return met && threshold.response == Response::evict;
  }
  friend bool operator==(const Evidence&, const Evidence&) = default;
};

// The ranking key of a candidate. Which fields count, and in which order, depends on the short
// resource (policy/rank.h).
struct RankKey {
  bool measured = false;          // unmeasured sorts first, as in kubelet
  bool exceeds_request = false;   // usage > request sorts first
  std::int32_t priority = 0;      // lower sorts first
  std::int64_t usage = 0;         // bytes, inodes or processes
  std::int64_t request = 0;       // bytes
  std::int64_t over_request = 0;  // usage - request, larger sorts first
  // With Ranking::kernel: points of the process that the kernel would select; larger sorts first.
  // Nullopt: not scored, or no process can be selected.
  std::optional<std::int64_t> badness = std::nullopt;
  // With Ranking::kubelet_growth: bytes of growth since the warning; larger sorts first. Growth
  // that is noise compared with the largest counts as 0. Nullopt: unknown; sorts as 0.
  std::optional<std::int64_t> growth = std::nullopt;
  // A pod's priority that is not known: sorts after every known one. `priority` is then 0.
  bool priority_unknown = false;
  // Prefer sorts first, avoid last, before all of the above.
  Preference preference = Preference::normal;

  friend bool operator==(const RankKey&, const RankKey&) = default;
};

// Why a candidate was excluded.
enum class Exclusion : std::uint8_t {
  none,
  is_protected,
  kill_in_flight,  // it is being killed already
  kill_failed,     // a kill was tried and failed
  empty,           // it has no processes
  unkillable,      // with Ranking::kernel: the kernel could select none of its processes
};

[[nodiscard]] std::string_view to_string(Exclusion exclusion);

struct Candidate {
  WorkloadSample sample;
  RankKey key;
  Exclusion exclusion = Exclusion::none;

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

// The facts that decide on a further kill for one threshold (policy/damage_limit.h).
struct Damage {
  std::uint32_t kills = 0;  // at the subject, within KillLimit::window
  Bytes expected;           // working sets of those of them that have ended
  Bytes freed;              // what these freed
  Bytes need;               // what the threshold lacks, beyond memory that is being released
  // Working sets of the candidates that may be killed; nullopt: one of them is unknown.
  std::optional<Bytes> killable;
  std::optional<Bytes> left_behind;  // of candidates without processes
  std::optional<Bytes> outside;      // used at the subject, and by no candidate
  // Increase of `outside` since the first of the kills was decided.
  std::optional<Bytes> outside_growth;
  bool near_oom = false;  // the kernel's OOM killer would act next

  friend bool operator==(const Damage&, const Damage&) = default;
};

struct Decision {
  Action action = Action::none;
  Reason reason = Reason::no_data;
  std::vector<Evidence> evidence;      // one per threshold and subject, met ones first
  std::optional<std::size_t> driving;  // index into `evidence` of the one that drives `action`
  std::vector<Candidate> considered;   // in eviction order, excluded ones included
  // Victims: one for a threshold, any number for limits on local storage.
  std::vector<Eviction> evictions;
  // The reclaim steps before pods for the driving signal; with action kill they are done or
  // unavailable.
  std::vector<ReclaimStep> node_reclaim;
  Conditions conditions = kNoConditions;
  std::optional<Damage> damage = std::nullopt;  // of the driving threshold, after a kill for it
  // Rulesets that fired or continued a chain, in their order.
  std::vector<RuleReport> rulesets = {};
  std::optional<std::size_t> ruleset = std::nullopt;  // index of the one whose kill this is

  // Index into `considered` of the first eviction.
  [[nodiscard]] std::optional<std::size_t> victim() const {
    if (evictions.empty()) return std::nullopt;
    return evictions.front().candidate;
  }
  friend bool operator==(const Decision&, const Decision&) = default;
};

}  // namespace forestall
