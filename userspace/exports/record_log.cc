// SPDX-License-Identifier: Apache-2.0
#include "exports/record_log.h"

#include <string.h>

#include <algorithm>

#include "exports/record_sentence.h"
#include "model/duration.h"
#include "model/stage.h"

namespace forestall::exports {
namespace {

constexpr std::size_t kRunnersUp = 3;

std::string amount(std::optional<Bytes> bytes) {
  return bytes ? fmt::format("{}", bytes->count) : "unknown";
}

std::string priority_of(const RankKey& key) {
  return key.priority_unknown ? "unknown" : fmt::format("{}", key.priority);
}

// "name:priority=5:working-set=1234" for each of the first candidates that is not the victim.
std::string runners_up(const Decision& decision) {
  std::string out;
  std::size_t named = 0;
  for (std::size_t i = 0; i < decision.considered.size() && named < kRunnersUp; ++i) {
    if (decision.victim() == i) continue;
    const Candidate& each = decision.considered[i];
    fmt::format_to(std::back_inserter(out), "{}{}:priority={}:working-set={}{}", named ? "," : "",
                   each.sample.workload.name, priority_of(each.key),
                   amount(each.sample.working_set()), each.key.exceeds_request ? ":exceeds" : "");
    if (each.sample.growth) {
      fmt::format_to(std::back_inserter(out), ":growth={}", each.sample.growth->count);
    }
    if (each.exclusion != Exclusion::none) out.append(":").append(to_string(each.exclusion));
    ++named;
  }
  return out;
}

// Facts of the victim that Kubernetes has not provided.
std::string inferred_facts(const InferredFacts& facts) {
  return fmt::format("qos={}:oom-score-adj={}:request-at-most={}", to_string(facts.qos),
                     facts.oom_score_adj ? fmt::format("{}", *facts.oom_score_adj) : "unknown",
                     amount(facts.memory_request));
}

void add_evidence(LogLine& line, const Evidence& evidence) {
  line.field("signal", to_string(evidence.threshold.signal))
      .field("subject", evidence.subject)
      .field("available", evidence.available)
      .field("limit", evidence.limit.text())
      .field("capacity", evidence.capacity)
      .field("pending_release", evidence.pending_release);
}

void add_victim(LogLine& line, const Eviction& eviction, const Candidate& victim) {
  line.field("cause", to_string(eviction.cause)).field("at_once", eviction.at_once);
  if (!eviction.at_once) line.field("grace", forestall::to_string(eviction.grace));
  line.field("victim", victim.sample.workload.name)
      .field("cgroup", victim.sample.workload.path)
      .field("victim_working_set", victim.sample.working_set())
      .field("victim_request", victim.sample.workload.memory_request)
      .field("victim_priority",
             victim.key.priority_unknown ? std::nullopt : std::optional(victim.key.priority))
      .field("victim_exceeds_request", victim.key.exceeds_request)
      .field("victim_growth", victim.sample.growth);
  if (const auto& inferred = victim.sample.workload.inferred) {
    line.field("victim_inferred", inferred_facts(*inferred));
  }
}

void add_kinds(LogLine& line, const MemoryKinds& kinds) {
  if (kinds.anon) line.field("anon", *kinds.anon);
  if (kinds.file) line.field("file", *kinds.file);
  if (kinds.shmem) line.field("shmem", *kinds.shmem);
  if (kinds.kernel) line.field("kernel", *kinds.kernel);
}

void add_damage(LogLine& line, const Damage& damage) {
  line.field("recent_kills", damage.kills)
      .field("expected", damage.expected)
      .field("freed", damage.freed)
      .field("need", damage.need)
      .field("killable", damage.killable)
      .field("left_behind", damage.left_behind)
      .field("outside", damage.outside);
  if (damage.outside_growth) line.field("outside_growth", *damage.outside_growth);
}

void add_stage(LogLine& line, std::string_view key, const std::optional<Duration>& duration) {
  if (duration) line.field(key, *duration);
}

// The kernel's comm fields end at their NUL, or fill the array.
std::string_view name_of(const std::array<char, 16>& comm) {
  return {comm.data(), strnlen(comm.data(), comm.size())};
}

// The domain in which the kernel chose. Only a memcg has a path to log.
void add_domain(LogLine& line, const OomKillEvent& seen) {
  line.field("constraint", seen.constraint ? to_string(*seen.constraint) : "unknown");
  if (seen.constraint_deduced) line.field("deduced", true);
  if (seen.constraint != Constraint::memcg) return;
  line.field("domain", seen.domain_path.empty() ? std::string("unknown") : seen.domain_path)
      .field("domain_usage", seen.domain_usage)
      .field("domain_limit", seen.domain_limit);
}

void add_forecast(LogLine& line, const OomKill& kill) {
  if (!kill.forecast) {
    line.field("predicted", "none");
    return;
  }
  const OomForecast& forecast = *kill.forecast;
  line.field("predicted", forecast.right ? "right" : "wrong")
      .field("prediction", to_string(forecast.verdict));
  if (forecast.victim) line.field("predicted_pid", forecast.victim->pid);
  line.field("prediction_age_us", kill.event.at - forecast.at);
}

}  // namespace

LogLine decision_line(const Record& record) {
  LogLine line("decision");
  line.field("record", record.sequence)
      .field("action", to_string(record.decision.action))
      .field("reason", to_string(record.decision.reason))
      .field("wake", to_string(record.observation.wake.source));
  if (record.prepared) {
    line.field("prepared_age_us", record.prepared->age).field("ranked", record.prepared->workloads);
  }
  if (record.decision.driving)
    add_evidence(line, record.decision.evidence[*record.decision.driving]);
  if (!record.decision.evictions.empty()) {
    const Eviction& eviction = record.decision.evictions.front();
    add_victim(line, eviction, record.decision.considered[eviction.candidate]);
    line.field("message", eviction.message);
  }
  if (record.decision.damage) add_damage(line, *record.decision.damage);
  if (record.observation.kinds) add_kinds(line, *record.observation.kinds);
  if (!record.decision.considered.empty()) {
    line.field("candidates", record.decision.considered.size())
        .field("runners_up", runners_up(record.decision));
  }
  return line;
}

LogLine outcome_line(const Record& record) {
  const Outcome& outcome = *record.outcome;
  LogLine line("outcome");
  line.field("record", record.sequence)
      .field("victim", outcome.victim.name)
      .field("cgroup", outcome.victim.path)
      .field("state", to_string(outcome.state))
      .field("dry_run", outcome.dry_run)
      .field("processes", outcome.processes)
      .field("freed", outcome.freed);
  if (outcome.left_behind) {
    line.field("left_behind", outcome.left_behind->total);
    add_kinds(line, outcome.left_behind->kinds);
  }
  const StageLengths stages = stage_lengths(record);
  for (std::size_t i = 0; i < kStageCount; ++i) {
    if (static_cast<Stage>(i) == Stage::reaction) continue;
    add_stage(line, std::string(to_string(static_cast<Stage>(i))) + "_us", stages[i]);
  }
  add_stage(line, "crossed_to_signalled_at_most_us",
            stages[static_cast<std::size_t>(Stage::reaction)]);
  if (record.crossing) line.field("crossing_seen_by", to_string(record.crossing->seen));
  for (const Attempt& attempt : outcome.attempts) {
    if (attempt.failure) {
      line.field("failed_rung", to_string(attempt.rung)).field("failure", attempt.failure->text());
    }
  }
  return line;
}

LogLine oom_kill_line(const Record& record) {
  const OomKill& kill = *record.oom_kill;
  const OomKillEvent& seen = kill.event;
  LogLine line("kernel-oom-kill");
  line.field("record", record.sequence)
      .field("victim", name_of(seen.comm))
      .field("pid", seen.victim.pid)
      .field("uid", seen.uid)
      .field("cgroup", seen.path.empty() ? std::string("unknown") : seen.path);
  add_domain(line, seen);
  line.field("oom_score_adj", seen.oom_score_adj);
  if (seen.points) line.field("points", *seen.points);
  if (seen.total_pages) line.field("total_pages", *seen.total_pages);
  if (seen.memory) line.field("victim_pages", seen.memory->total());
  if (seen.killer) {
    line.field("killer", name_of(seen.killer_comm)).field("killer_pid", seen.killer->pid);
  }
  if (seen.with_another) line.field("with_another", true);
  add_forecast(line, kill);
  line.field("inaction", to_string(kill.inaction));
  if (kill.since_crossing) line.field("since_crossing_us", *kill.since_crossing);
  if (kill.agent_away) line.field("agent_away_us", *kill.agent_away);
  return line;
}

LogLine condition_line(const ConditionStatus& status) {
  LogLine line("condition");
  line.field("condition", to_string(status.condition))
      .field("status", status.status ? "True" : "False")
      .field("reason", condition_reason(status.condition, status.status))
      .field("message", condition_message(status.condition, status.status))
      .field("node_event", condition_event(status.condition, status.status))
      .field("taint", condition_taint(status.condition));
  return line;
}

void RecordLog::write(const Record& record) {
  if (record.oom_kill) {
    write(LogLevel::error, record, oom_kill_line, oom_kill_sentence);
    return;
  }
  if (record.outcome) {
    const bool well = record.outcome->state == KillState::released || record.outcome->dry_run;
    write(well ? LogLevel::info : LogLevel::error, record, outcome_line, outcome_sentence);
    return;
  }
  for (const ConditionStatus& status : record.decision.conditions) {
    if (!status.changed) continue;
    write(status.status ? LogLevel::warning : LogLevel::info, status, condition_line,
          condition_sentence);
  }
  const bool acts = record.decision.action == Action::kill;
  write(acts ? LogLevel::warning : LogLevel::info, record, decision_line, decision_sentence);
}

template <typename Event>
void RecordLog::write(LogLevel level, const Event& event, LogLine (*line)(const Event&),
                      std::string (*sentence)(const Event&)) {
  if (log_.format() == LogFormat::text) {
    log_.write_text(level, sentence(event));
  } else {
    log_.write(level, line(event));
  }
}

}  // namespace forestall::exports
