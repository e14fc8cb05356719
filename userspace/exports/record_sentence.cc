// SPDX-License-Identifier: Apache-2.0
#include "exports/record_sentence.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "exports/amount_text.h"
#include "exports/log_line.h"
#include "model/duration.h"

namespace forestall::exports {
namespace {

std::string_view phrase_of(Reason reason) {
  switch (reason) {
    case Reason::no_data: return "no configured signal could be computed";
    case Reason::no_threshold_met: return "no threshold is met";
    case Reason::release_pending: return "memory that is being released suffices";
    case Reason::workloads_unread: return "the workloads are not read yet";
    case Reason::no_candidates: return "there is no candidate";
    case Reason::all_protected: return "every candidate is protected, empty or already tried";
    case Reason::threshold_met: return "a threshold is met";
    case Reason::local_storage_limit: return "a limit on local storage is exceeded";
    case Reason::in_grace: return "the grace period is not over";
    case Reason::statistics_not_newer: return "there is no newer reading since the last action";
    case Reason::cleanup_pending: return "the last victim is not gone yet";
    case Reason::disk_usage_unread: return "the disk usage of pods is not read yet";
    case Reason::node_reclaim: return "containers and images are being removed first";
    case Reason::node_reclaim_sufficed: return "removing containers and images sufficed";
    case Reason::own_limit_near: return "workloads are near their own limits";
    case Reason::guard_shot: return "the guard in the kernel acted";
    case Reason::kills_freed_little: return "the last kill freed too little";
    case Reason::held_by_no_candidate: return "the memory is used outside of all candidates";
    case Reason::candidates_too_small: return "all candidates together hold too little";
    case Reason::within_requests: return "every candidate is within its request";
    case Reason::kill_limit_reached: return "killLimit is reached";
    case Reason::ruleset: return "a ruleset fired";
    case Reason::pod_runs_again: return "a container of an evicted pod was started again";
    case Reason::container_pressure: return "a container stays under memory pressure";
  }
  return "";
}

std::string_view phrase_of(Inaction inaction) {
  switch (inaction) {
    case Inaction::not_watched: return "no threshold covers it";
    case Inaction::unread: return "the signal could not be computed";
    case Inaction::below_threshold: return "no threshold was crossed before";
    case Inaction::in_grace: return "the grace period was not over";
    case Inaction::dry_run: return "this is a dry run";
    case Inaction::no_victim: return "there was no candidate to evict";
    case Inaction::too_fast: return "the threshold was crossed too shortly before";
    case Inaction::acting: return "a kill by the agent had not freed its memory yet";
    case Inaction::ours: return "the agent had signalled the process already";
    case Inaction::held_back: return "a further kill would not have helped";
    case Inaction::warn_only: return "the thresholds there only warn or throttle";
    case Inaction::stopped: return "the agent did not run";
  }
  return "";
}

// "memory.available 95.8Mi, threshold 96Mi"; "memory.available 31.5Mi + 224Mi, threshold 96Mi".
std::string apart(Signal signal, std::int64_t available, std::int64_t limit,
                  std::int64_t pending = 0) {
  const Unit unit = unit_of(signal);
  const std::string more = pending > 0 ? " + " + amount_text(pending, unit) : "";
  return std::string(to_string(signal)) + " " + amount_text(available, unit) + more +
         ", threshold " + amount_text(limit, unit);
}

// "memory.available 95.8Mi < 96Mi".
std::string compared(Signal signal, std::int64_t available, std::int64_t limit) {
  if (available >= limit) return apart(signal, available, limit);
  return std::string(to_string(signal)) + " " + less_text(available, limit, unit_of(signal));
}

// The same with the minimum reclaim and the cgroup. `pending`: memory that is being released.
std::string comparison(const Evidence& evidence, std::int64_t pending = 0) {
  const Threshold& threshold = evidence.threshold;
  const std::int64_t limit = evidence.limit.value();
  std::string text = pending > 0 ? apart(threshold.signal, evidence.available, limit, pending)
                                 : compared(threshold.signal, evidence.available, limit);
  if (evidence.available + pending >= limit && threshold.min_reclaim) {
    const std::int64_t more = threshold.min_reclaim->of(evidence.capacity).value();
    text += " and minimum reclaim " + amount_text(more, unit_of(threshold.signal));
  }
  if (evidence.cgroup != CgroupId{}) text += " in " + logfmt_value(evidence.subject);
  return text;
}

std::string driving(const Decision& decision) {
  if (!decision.driving) return {};
  const Evidence& evidence = decision.evidence[*decision.driving];
  // Without it the sentence would read "suffices: 31.5Mi < 96Mi".
  const bool releasing = decision.reason == Reason::release_pending;
  return comparison(evidence, releasing ? evidence.pending_release : 0);
}

std::string cause_of(const Decision& decision) {
  if (decision.ruleset) {
    const RuleReport& ruleset = decision.rulesets[*decision.ruleset];
    std::string text = "ruleset " + logfmt_value(ruleset.name);
    if (ruleset.group) text += ", detectors " + logfmt_value(*ruleset.group);
    return text;
  }
  const bool by_limit =
      !decision.evictions.empty() && decision.evictions.front().cause != EvictionCause::threshold;
  if (by_limit) return "over " + std::string(to_string(decision.evictions.front().cause));
  const std::string compared = driving(decision);
  return compared.empty() ? std::string(phrase_of(decision.reason)) : compared;
}

// Why this workload and no other, as far as memory ranks it; empty: something else does.
std::string rank_clause(const Decision& decision, const Workload& victim) {
  const auto found = std::ranges::find_if(decision.considered, [&](const Candidate& each) {
    return each.sample.workload.cgroup == victim.cgroup && each.sample.workload.path == victim.path;
  });
  if (found == decision.considered.end() || !decision.driving) return {};
  const Signal signal = decision.evidence[*decision.driving].threshold.signal;
  const RankKey& key = found->key;
  if (resource_of(signal) != Resource::memory || !key.measured || key.badness) return {};
  if (key.request <= 0) return "; no request, used " + amount_text(key.usage);
  if (!key.exceeds_request) return "; within its request";
  return "; over its request by " + amount_text(key.usage - key.request);
}

std::string freed_clause(const Outcome& outcome) {
  std::string text = "; freed " + amount_text(outcome.freed.count);
  if (outcome.signalled && outcome.released) {
    text += " in " + time_text(*outcome.released - *outcome.signalled);
  }
  if (outcome.left_behind) {
    text += "; " + amount_text(outcome.left_behind->total.count) + " stayed charged";
  }
  return text;
}

std::string failure_of(const Outcome& outcome) {
  for (const Attempt& attempt : outcome.attempts) {
    if (attempt.failure) return ": " + logfmt_escaped(attempt.failure->text());
  }
  return {};
}

// The kernel's comm fields end at their NUL, or fill the array.
std::string_view comm_text(const std::array<char, 16>& comm) {
  return {comm.data(), strnlen(comm.data(), comm.size())};
}

// The cgroup at its limit. Paths of containers are long, so the victim's is not repeated.
std::string limited_clause(const OomKillEvent& seen) {
  if (seen.domain_path == seen.path) return ", which";
  const auto slash = seen.path.rfind('/');
  const bool is_parent =
      slash != std::string::npos && seen.path.substr(0, slash) == seen.domain_path;
  return is_parent ? ": its parent cgroup" : ": " + logfmt_value(seen.domain_path);
}

}  // namespace

std::string decision_sentence(const Record& record) {
  const Decision& decision = record.decision;
  if (decision.action == Action::kill && !decision.evictions.empty()) {
    const Eviction& eviction = decision.evictions.front();
    const Workload& victim = decision.considered[eviction.candidate].sample.workload;
    std::string text = "evicting " + logfmt_value(victim.name) + ": " + cause_of(decision);
    if (decision.reason == Reason::guard_shot) text += "; completes a kill by the guard";
    if (!eviction.at_once) text += "; grace " + forestall::to_string(eviction.grace);
    if (decision.evictions.size() > 1) {
      text += fmt::format("; and {} more", decision.evictions.size() - 1);
    }
    return text;
  }
  std::string text(phrase_of(decision.reason));
  if (const std::string compared = driving(decision); !compared.empty()) text += ": " + compared;
  return text;
}

std::string outcome_sentence(const Record& record) {
  const Outcome& outcome = *record.outcome;
  const std::string name = logfmt_value(outcome.victim.name);
  if (outcome.state == KillState::failed) return "could not evict " + name + failure_of(outcome);
  const std::string why =
      ": " + cause_of(record.decision) + rank_clause(record.decision, outcome.victim);
  if (outcome.dry_run) return "would have evicted " + name + why;
  if (outcome.state == KillState::stuck) {
    return "killed " + name + ", but its memory is not free yet" + why + freed_clause(outcome);
  }
  return "evicted " + name + why + freed_clause(outcome);
}

std::string oom_kill_sentence(const Record& record) {
  const OomKill& kill = *record.oom_kill;
  const OomKillEvent& seen = kill.event;
  std::string text = fmt::format("the kernel's OOM killer killed {} (pid {})",
                                 logfmt_value(comm_text(seen.comm)), seen.victim.pid);
  if (!seen.path.empty()) text += " in " + logfmt_value(seen.path);
  if (seen.constraint == Constraint::memcg && !seen.domain_path.empty()) {
    text += limited_clause(seen) + " was at its limit";
    if (seen.domain_limit) text += " of " + amount_text(seen.domain_limit->count);
  } else if (seen.constraint == Constraint::none) {
    text += ": the node was out of memory";
  }
  text += "; why the agent had not acted: " + std::string(phrase_of(kill.inaction));
  if (kill.since_crossing) text += " (" + time_text(*kill.since_crossing) + " after the crossing)";
  return text;
}

std::string crossing_sentence(Signal signal, std::string_view subject, bool met,
                              std::int64_t available, std::int64_t limit) {
  // Memory that is being released counts as well, so a threshold above it may be no longer met.
  const std::string_view released =
      !met && available < limit ? " with the memory that is being released" : "";
  std::string text =
      met ? "met: " + compared(signal, available, limit)
          : fmt::format("no longer met{}: {}", released, apart(signal, available, limit));
  if (subject != "node") text += " in " + logfmt_value(subject);
  return text;
}

std::string condition_sentence(const ConditionStatus& status) {
  return fmt::format("{} is {}: {}", to_string(status.condition),
                     status.status ? "true" : "false again",
                     condition_message(status.condition, status.status));
}

}  // namespace forestall::exports
