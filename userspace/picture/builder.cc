// SPDX-License-Identifier: Apache-2.0
#include "picture/builder.h"

#include <algorithm>
#include <utility>

namespace forestall::picture {
namespace {

// Around a kill, all values are kept.
constexpr std::int64_t kAroundUs = 1'000'000;
// Wakeups are merged if they are closer than this fraction of the time span.
constexpr std::int64_t kWakesAcross = 1500;
// An agent that is late by so many intervals did not run.
constexpr int kIntervalsMissed = 3;

}  // namespace

Bounds Bounds::of_agent() {
  Bounds bounds;
  bounds.workloads_kept = 48;
  bounds.gauges_kept = 24;
  bounds.rows_kept = 1024;
  bounds.workload_rows_kept = 512;
  bounds.spans = 128;
  bounds.wake_times = 256;
  bounds.moments = {48, 16};
  bounds.workload_spacing = std::chrono::milliseconds(200);
  return bounds;
}

Builder::Builder(const Bounds& bounds)
    : bounds_(bounds),
      gauges_(bounds.gauges_kept, bounds.rows_kept),
      workloads_(bounds.workloads_kept, bounds.workload_rows_kept, bounds.workload_spacing),
      pressure_(bounds.rows_kept),
      spans_(bounds.spans),
      wakes_(bounds.wake_times),
      moments_(bounds.moments) {}

void Builder::anchor(MonotonicTime at, std::int64_t wall_time_ns, bool new_run) {
  offset_ns_ = wall_time_ns - to_ns(at);
  if (!anchored_) facts_.set_origin_unix_us(wall_time_ns / 1000);
  anchored_ = true;
  if (!new_run) return;
  ++run_;
  pressure_.forget();
  moments_.forget_evaluations();
}

void Builder::set_dry_run(bool dry_run) {
  origin().set_dry_run(dry_run);
}

std::int64_t Builder::us(MonotonicTime at) const {
  return (to_ns(at) + offset_ns_) / 1000 - facts_.origin_unix_us();
}

// Converts a time, and extends the span to it.
std::int64_t Builder::reach(MonotonicTime at) {
  const std::int64_t at_us = us(at);
  from_us_ = std::min(from_us_.value_or(at_us), at_us);
  to_us_ = std::max(to_us_, at_us);
  return at_us;
}

void Builder::note_gap(MonotonicTime at) {
  const bool is_gap = interval_ > Duration::zero() && last_evaluation_ &&
                      at - *last_evaluation_ > kIntervalsMissed * interval_;
  if (is_gap) lose(at);
  last_evaluation_ = at;
}

void Builder::evaluation(std::uint64_t number, const Record& evaluated) {
  note_gap(evaluated.observation.at);
  const std::int64_t at_us = reach(evaluated.observation.at);
  ++evaluations_;
  wakes_.take(at_us, evaluated.observation.wake.source);
  gauges_.take(at_us, evaluated.decision.evidence);
  // An evaluation of the pre-ranked victims does not contain the other workloads.
  if (!evaluated.prepared) spans_.take(at_us, evaluated.decision);
  if (evaluated.observation.workloads) workloads_.note(at_us, *evaluated.observation.workloads);
  if (number > 0) moments_.evaluation(number, evaluated);
}

void Builder::record(std::uint64_t evaluation, const Record& record) {
  // The wall time of an evaluation's record differs from the time of the evaluation.
  std::int64_t at_us = record.wall_time_ns / 1000 - facts_.origin_unix_us();
  if (record.oom_kill) at_us = us(record.oom_kill->event.at);
  from_us_ = std::min(from_us_.value_or(at_us), at_us);
  to_us_ = std::max(to_us_, at_us);
  moments_.record(evaluation, run_, at_us, facts_.origin().dry_run(), record);
  const auto& outcome = record.outcome;
  if (outcome && outcome->released && !outcome->dry_run) {
    // Extends the span as well: viewers would get a row beyond it twice.
    to_us_ = std::max(to_us_, workloads_.remove(reach(*outcome->released), outcome->victim.path));
  }
}

void Builder::readings(MonotonicTime at, const std::vector<Evidence>& evidence) {
  gauges_.take(reach(at), evidence);
}

void Builder::workload_sample(MonotonicTime at, const std::vector<WorkloadSample>& samples) {
  workloads_.replace(reach(at), samples);
}

void Builder::pressure(const MemoryPressure& pressure) {
  pressure_.take(reach(pressure.at), pressure);
}

void Builder::lose(MonotonicTime until) {
  last_evaluation_ = until;
  if (!from_us_) return;  // no earlier entry
  const std::int64_t from_us = to_us_;
  gauges_.lose(from_us);
  workloads_.lose(from_us);
  pressure_.lose(from_us);
  spans_.lose(from_us, reach(until));
}

internal::Picture Builder::picture() {
  const auto kills = moments_.kill_times();
  gauges_.thin(bounds_.rows_drawn, kills, kAroundUs);
  workloads_.thin(bounds_.rows_drawn, kills, kAroundUs);
  pressure_.thin(bounds_.rows_drawn, kills, kAroundUs);
  return reported(Cursor{});
}

internal::Picture Builder::reported(const Cursor& cursor) const {
  internal::Picture out = facts_;
  out.set_from_us(from_us_.value_or(0));
  out.set_to_us(to_us_);
  gauges_.put(out, bounds_.gauges_drawn, cursor.at_us);
  pressure_.put(out, cursor.at_us);
  workloads_.put(out, bounds_.workloads_drawn, cursor.at_us);
  spans_.put(out, cursor.at_us);
  wakes_.put(out, cursor.at_us, (to_us_ - from_us_.value_or(0)) / kWakesAcross);
  moments_.put(out, cursor.revision);
  out.mutable_summary()->set_evaluations(evaluations_);
  return out;
}

internal::Picture Builder::since(Cursor& cursor) const {
  internal::Picture out = reported(cursor);
  out.set_continued(cursor.at_us != INT64_MIN);
  cursor.at_us = to_us_;
  cursor.revision = moments_.revision();
  return out;
}

}  // namespace forestall::picture
