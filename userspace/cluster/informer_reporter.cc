// SPDX-License-Identifier: Apache-2.0
#include "cluster/informer_reporter.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace forestall::cluster {

using exports::LogLevel;
using exports::LogLine;

namespace {

// For a page that any client may read: without text of the API server, which the log has.
std::string public_problem(const ClusterInformers& informers) {
  std::string found;
  for (const auto& each : informers.all()) {
    if (each->current() || (!found.empty() && !each->refused())) continue;
    const kubernetes::ListWatchState& now = each->state();
    found = std::string(each->resource());
    if (now.refused_code != 0) found += fmt::format(": {} {}", now.verb, now.refused_code);
    if (now.overdue) found += fmt::format(": {} is not answered in time", now.verb);
    if (each->refused()) break;
  }
  return found;
}

}  // namespace

bool InformerLogFilter::is_news(bool current, const std::string& problem, MonotonicTime now) const {
  if (current != current_) return true;
  if (problem.empty()) return !problem_.empty() && !may_recur(now);
  if (problem_.empty()) return true;
  return now - logged_ >= (problem == problem_ ? kRepeat : kProblemLongest);
}

bool InformerLogFilter::passes(bool current, const std::string& problem, MonotonicTime now) {
  const bool passes = is_news(current, problem, now);
  if (!problem.empty()) problem_seen_ = now;
  if (!passes) return false;
  current_ = current;
  logged_ = now;
  if (!problem.empty() || !may_recur(now)) problem_ = problem;
  return true;
}

void InformerReporter::report(const ClusterInformers& informers, PacedLog& log,
                              RebalanceMetrics& metrics, MonotonicTime now) {
  for (const auto& each : informers.all()) log_changes(*each, log, now);
  metrics.set_not_ready(public_problem(informers));
  if (now < next_) return;
  next_ = now + kInterval;
  for (const auto& each : informers.all()) {
    metrics.set_informer(std::string(each->resource()), {.current = each->current(),
                                                         .objects = each->store().size(),
                                                         .bytes = each->store().bytes(),
                                                         .lists = each->state().lists,
                                                         .failures = each->state().failures});
  }
}

void InformerReporter::log_changes(const Informer& informer, PacedLog& log, MonotonicTime now) {
  const bool current = informer.current();
  // Before the first list is complete, there is nothing to report but failures.
  const bool has_problem =
      !informer.state().problem.empty() || (!current && informer.state().complete);
  const std::string problem = has_problem ? informer.problem() : "";
  if (!filters_[std::string(informer.resource())].passes(current, problem, now)) return;
  LogLine line("watch");
  line.field("resource", informer.resource()).field("state", current ? "current" : "not-current");
  if (current) line.field("objects", informer.store().size());
  if (!problem.empty()) line.field("problem", problem);
  log.write(problem.empty() ? LogLevel::info : LogLevel::warning, std::move(line));
}

}  // namespace forestall::cluster
