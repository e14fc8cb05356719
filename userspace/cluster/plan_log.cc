// SPDX-License-Identifier: Apache-2.0
#include "cluster/plan_log.h"

#include <fmt/format.h>

#include <utility>

namespace forestall::cluster {
namespace {

using exports::LogLevel;
using exports::LogLine;

EventSubject subject_of(const PlannedEviction& eviction) {
  return {"Pod", eviction.pod.pod_namespace, eviction.pod.name, eviction.pod.uid};
}

}  // namespace

void log_placeholder(PacedLog& log, const PodTarget& pod, const std::string& node,
                     std::string_view state, const std::string& reason) {
  LogLine line("placeholder");
  line.field("pod", pod.pod_namespace + '/' + pod.name).field("node", node).field("state", state);
  if (!reason.empty()) line.field("reason", reason);
  log.write(LogLevel::info, std::move(line));
}

void log_plan(PacedLog& log, const rebalance::RebalancePlan& plan, std::size_t evictions) {
  LogLine line("plan");
  line.field("evictions", evictions);
  if (!plan.skipped.empty()) line.field("skipped", plan.skipped);
  log.write(LogLevel::info, std::move(line));
  for (const rebalance::ProfileRun& profile : plan.profiles) {
    for (const rebalance::PluginReport& each : profile.plugins) {
      if (each.error.empty()) continue;
      log.write(LogLevel::warning, LogLine("plugin")
                                       .field("profile", profile.name)
                                       .field("plugin", each.plugin)
                                       .field("problem", each.error));
    }
  }
}

void log_eviction(PacedLog& log, const PlannedEviction& eviction, std::string_view state,
                  const std::string& problem) {
  LogLine line("eviction");
  line.field("pod", eviction.pod.pod_namespace + '/' + eviction.pod.name)
      .field("uid", eviction.pod.uid)
      .field("node", eviction.node)
      .field("plugin", eviction.plugin)
      .field("reason", eviction.reason)
      .field("state", state);
  if (!eviction.destination.empty()) line.field("destination", eviction.destination);
  if (!problem.empty()) line.field("problem", problem);
  log.write(problem.empty() ? LogLevel::info : LogLevel::warning, std::move(line));
}

ClusterEvent eviction_event(const PlannedEviction& eviction) {
  ClusterEvent event;
  event.subject = subject_of(eviction);
  event.reason = eviction.plugin;
  event.message =
      fmt::format("pod eviction from node {} by forestall: {}", eviction.node, eviction.reason);
  event.is_normal = true;
  return event;
}

ClusterEvent failure_event(const PlannedEviction& eviction, const std::string& problem) {
  ClusterEvent event;
  event.subject = subject_of(eviction);
  event.reason = "EvictionFailed";
  event.message =
      fmt::format("pod eviction from node {} by forestall failed: {}", eviction.node, problem);
  return event;
}

}  // namespace forestall::cluster
