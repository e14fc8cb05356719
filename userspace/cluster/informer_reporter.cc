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
    if (each->refused()) break;
  }
  return found;
}

}  // namespace

void InformerReporter::report(const ClusterInformers& informers, PacedLog& log,
                              RebalanceMetrics& metrics, MonotonicTime now) {
  for (const auto& each : informers.all()) log_changes(*each, log);
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

void InformerReporter::log_changes(const Informer& informer, PacedLog& log) {
  const bool current = informer.current();
  // Before the first list is complete, there is nothing to report but failures.
  const bool has_problem =
      !informer.state().problem.empty() || (!current && informer.state().complete);
  Logged& logged = logged_[std::string(informer.resource())];
  if (current == logged.current && !has_problem && logged.problem.empty()) return;
  std::string problem = has_problem ? informer.problem() : "";
  if (current == logged.current && problem == logged.problem) return;
  LogLine line("watch");
  line.field("resource", informer.resource()).field("state", current ? "current" : "not-current");
  if (current) line.field("objects", informer.store().size());
  if (!problem.empty()) line.field("problem", problem);
  log.write(problem.empty() ? LogLevel::info : LogLevel::warning, std::move(line));
  logged = {current, std::move(problem)};
}

}  // namespace forestall::cluster
