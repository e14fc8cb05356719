// SPDX-License-Identifier: Apache-2.0
#include "agent/left_behind.h"

#include <algorithm>
#include <cerrno>
#include <functional>

#include "exports/log_line.h"
#include "model/signal.h"

namespace forestall::agent {
namespace {

// Less than this is accounting noise.
constexpr Bytes kLeftBehindMin = mib(1);

// Whether the decision is about memory that reclaim can free.
bool reclaim_may_help(const Decision& decision) {
  if (!decision.driving) return false;
  const SignalRow& row = row_of(decision.evidence[*decision.driving].threshold.signal);
  return row.resource == Resource::memory && row.measure != Measure::swap;
}

void log_reclaimed(exports::Log& log, const actuators::Reclaimed& reclaimed) {
  exports::LogLine line("left-behind");
  line.field("cgroup", reclaimed.path).field("before", reclaimed.before);
  if (reclaimed.after) line.field("after", *reclaimed.after);
  if (reclaimed.kinds.file) line.field("file", *reclaimed.kinds.file);
  if (reclaimed.kinds.shmem) line.field("shmem", *reclaimed.kinds.shmem);
  if (reclaimed.kinds.kernel) line.field("kernel", *reclaimed.kinds.kernel);
  if (reclaimed.failure) line.field("failure", reclaimed.failure->text());
  log.write(level_of(reclaimed), line);
}

}  // namespace

std::vector<const WorkloadSample*> left_behind(const Decision& decision) {
  std::vector<const WorkloadSample*> left;
  if (!reclaim_may_help(decision)) return left;
  for (const Candidate& candidate : decision.considered) {
    const auto held = candidate.sample.working_set();
    if (candidate.exclusion == Exclusion::empty && held && *held > kLeftBehindMin) {
      left.push_back(&candidate.sample);
    }
  }
  std::ranges::sort(left, std::greater(), [](const auto* sample) { return sample->working_set(); });
  return left;
}

exports::LogLevel level_of(const actuators::Reclaimed& reclaimed) {
  const auto& failure = reclaimed.failure;
  if (failure && failure->code != ENOENT && failure->code != ENODEV) {
    return exports::LogLevel::warning;
  }
  const bool freed = reclaimed.after && *reclaimed.after + kLeftBehindMin <= reclaimed.before;
  return freed ? exports::LogLevel::info : exports::LogLevel::debug;
}

void LeftBehindController::evaluated(const Decision& decision) {
  for (const WorkloadSample* sample : left_behind(decision)) {
    if (ladder_.reclaim(*sample)) break;
  }
  report();
}

void LeftBehindController::report() {
  for (const auto& reclaimed : ladder_.take_reclaimed()) log_reclaimed(log_, reclaimed);
}

}  // namespace forestall::agent
