// SPDX-License-Identifier: Apache-2.0
// Records and outcomes.
#include <google/protobuf/util/time_util.h>

#include <utility>

#include "messages/convert.h"
#include "messages/convert_fields.h"
#include "text/utf8.h"

namespace forestall::messages {
namespace {

using google::protobuf::util::TimeUtil;

v1::Attempt to_proto(const Attempt& attempt) {
  v1::Attempt out;
  out.set_rung(to_enum<v1::Attempt::Rung>(attempt.rung));
  out.set_at_ns(to_ns(attempt.at));
  out.set_processes(attempt.processes);
  if (attempt.failure) {
    out.mutable_failure()->set_code(attempt.failure->code);
    out.mutable_failure()->set_message(text::to_utf8(attempt.failure->message));
  }
  return out;
}

Result<Attempt> from_proto(const v1::Attempt& message) {
  Attempt attempt;
  attempt.rung = TRY(from_enum<Rung>(message.rung(), v1::Attempt::Rung_MAX, "rung"));
  attempt.at = from_ns(message.at_ns());
  attempt.processes = message.processes();
  if (message.has_failure()) {
    attempt.failure = Error{message.failure().code(), message.failure().message()};
  }
  return attempt;
}

v1::CrossingBounds::Reading to_proto(const CrossingBounds::Reading& reading) {
  v1::CrossingBounds::Reading out;
  out.set_at_ns(to_ns(reading.at));
  if (reading.available) out.set_available(*reading.available);
  return out;
}

CrossingBounds::Reading from_proto(const v1::CrossingBounds::Reading& message) {
  CrossingBounds::Reading reading{from_ns(message.at_ns())};
  if (message.has_available()) reading.available = message.available();
  return reading;
}

v1::CrossingBounds to_proto(const CrossingBounds& crossing) {
  v1::CrossingBounds out;
  if (crossing.above) *out.mutable_last_above() = to_proto(*crossing.above);
  *out.mutable_first_below() = to_proto(crossing.below);
  out.set_seen(to_enum<v1::CrossingBounds::Seen>(crossing.seen));
  return out;
}

Result<CrossingBounds> from_proto(const v1::CrossingBounds& message) {
  CrossingBounds crossing;
  if (message.has_last_above()) crossing.above = from_proto(message.last_above());
  crossing.below = from_proto(message.first_below());
  crossing.seen =
      TRY(from_enum<CrossingOrigin>(message.seen(), v1::CrossingBounds::Seen_MAX, "seen"));
  return crossing;
}

}  // namespace

v1::StageTimes to_proto(const StageTimes& stages) {
  v1::StageTimes out;
  out.set_crossed_ns(to_ns(stages.crossed));
  out.set_woken_ns(to_ns(stages.woken));
  out.set_observed_ns(to_ns(stages.observed));
  out.set_decided_ns(to_ns(stages.decided));
  return out;
}

StageTimes from_proto(const v1::StageTimes& message) {
  return {from_ns(message.crossed_ns()), from_ns(message.woken_ns()),
          from_ns(message.observed_ns()), from_ns(message.decided_ns())};
}

google::protobuf::Timestamp to_timestamp(std::int64_t wall_time_ns) {
  return TimeUtil::NanosecondsToTimestamp(wall_time_ns);
}

// Timestamps cover the years 1 to 9999, nanoseconds in 64 bits only 1677 to 2262.
Result<std::int64_t> nanoseconds(const google::protobuf::Timestamp& time) {
  const __int128 all = static_cast<__int128>(time.seconds()) * 1'000'000'000 + time.nanos();
  if (all < INT64_MIN || all > INT64_MAX) return error("wallTime: outside the years 1677 to 2262");
  return static_cast<std::int64_t>(all);
}

v1::Outcome to_proto(const Outcome& outcome) {
  v1::Outcome out;
  *out.mutable_victim() = to_proto(outcome.victim);
  out.set_dry_run(outcome.dry_run);
  out.set_state(to_enum<v1::KillProgress::State>(outcome.state));
  for (const Attempt& attempt : outcome.attempts) *out.add_attempts() = to_proto(attempt);
  out.set_processes(outcome.processes);
  out.set_usage_before_bytes(outcome.usage_before.count);
  out.set_freed_bytes(outcome.freed.count);
  out.set_began_ns(to_ns(outcome.began));
  if (outcome.signalled) out.set_signalled_ns(to_ns(*outcome.signalled));
  if (outcome.exited) out.set_exited_ns(to_ns(*outcome.exited));
  if (outcome.released) out.set_released_ns(to_ns(*outcome.released));
  if (outcome.left_behind) {
    out.mutable_left_behind()->set_total_bytes(outcome.left_behind->total.count);
    *out.mutable_left_behind()->mutable_kinds() = messages::to_proto(outcome.left_behind->kinds);
  }
  return out;
}

namespace {

// Everything but the observation and the decision.
void put_the_rest(const Record& record, v1::Record& out) {
  out.set_sequence(record.sequence);
  *out.mutable_wall_time() = to_timestamp(record.wall_time_ns);
  *out.mutable_stages() = messages::to_proto(record.stages);
  if (record.outcome) *out.mutable_outcome() = messages::to_proto(*record.outcome);
  if (record.oom_kill) *out.mutable_oom_kill() = messages::to_proto(*record.oom_kill);
  if (record.prepared) {
    out.mutable_prepared()->set_age_ns(record.prepared->age.count());
    out.mutable_prepared()->set_workloads(record.prepared->workloads);
  }
  if (record.crossing) *out.mutable_crossing() = to_proto(*record.crossing);
  if (record.begun) {
    out.mutable_begun()->set_dry_run(record.begun->dry_run);
    out.mutable_begun()->set_state(to_enum<v1::KillProgress::State>(record.begun->state));
  }
}

}  // namespace

v1::Record to_proto(const Record& record) {
  v1::Record out;
  put_the_rest(record, out);
  *out.mutable_observation() = to_proto(record.observation);
  *out.mutable_decision() = to_proto(record.decision);
  return out;
}

void put_without_evaluation(const Record& record, v1::Record& out) {
  put_the_rest(record, out);
  for (const Eviction& eviction : record.decision.evictions) {
    *out.mutable_decision()->add_evictions() = to_proto(eviction);
  }
}

Result<Outcome> from_proto(const v1::Outcome& message) {
  Outcome outcome;
  outcome.victim = TRY(inside("victim", workload_from_proto(message.victim(), kDefaultPodsCgroup)));
  outcome.dry_run = message.dry_run();
  outcome.state = TRY(kill_state_from_proto(message.state()));
  TRY(read_each(message.attempts(), outcome.attempts, "attempts",
                [](const v1::Attempt& each) { return from_proto(each); }));
  outcome.processes = message.processes();
  outcome.usage_before = Bytes{message.usage_before_bytes()};
  outcome.freed = Bytes{message.freed_bytes()};
  outcome.began = from_ns(message.began_ns());
  if (message.has_signalled_ns()) outcome.signalled = from_ns(message.signalled_ns());
  if (message.has_exited_ns()) outcome.exited = from_ns(message.exited_ns());
  if (message.has_released_ns()) outcome.released = from_ns(message.released_ns());
  if (message.has_left_behind()) {
    outcome.left_behind = LeftBehind{Bytes{message.left_behind().total_bytes()},
                                     messages::from_proto(message.left_behind().kinds())};
  }
  return outcome;
}

namespace {

Result<Record> read_the_rest(const v1::Record& message) {
  Record record;
  record.sequence = message.sequence();
  record.wall_time_ns = TRY(nanoseconds(message.wall_time()));
  record.stages = messages::from_proto(message.stages());
  if (message.has_outcome())
    record.outcome = TRY(inside("outcome", messages::from_proto(message.outcome())));
  if (message.has_oom_kill()) {
    record.oom_kill = TRY(inside("oomKill", messages::from_proto(message.oom_kill())));
  }
  if (message.has_prepared()) {
    record.prepared =
        Prepared{Duration(message.prepared().age_ns()), message.prepared().workloads()};
  }
  if (message.has_crossing()) {
    record.crossing = TRY(inside("crossing", from_proto(message.crossing())));
  }
  if (message.has_begun()) {
    record.begun = BegunKill{message.begun().dry_run(),
                             TRY(inside("begun", kill_state_from_proto(message.begun().state())))};
  }
  return record;
}

}  // namespace

Result<Record> from_proto(const v1::Record& message) {
  Record record = TRY(read_the_rest(message));
  record.observation = TRY(inside("observation", from_proto(message.observation())));
  record.decision = TRY(inside("decision", from_proto(message.decision())));
  return record;
}

Result<Record> without_evaluation_from_proto(const v1::Record& message) {
  Record record = TRY(read_the_rest(message));
  TRY(inside("decision",
             read_evictions(message.decision(), UINT32_MAX, record.decision.evictions)));
  return record;
}

}  // namespace forestall::messages
