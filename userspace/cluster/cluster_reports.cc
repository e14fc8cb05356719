// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_reports.h"

#include <algorithm>
#include <chrono>

#include "cluster/annotation_events.h"
#include "forestall/v1/service.pb.h"
#include "intake/wall_time.h"

namespace forestall::cluster {
namespace {

using exports::LogLevel;
using exports::LogLine;

constexpr const char* kGetStatus = "/forestall.v1.Agent/GetStatus";
constexpr const char* kRank = "/forestall.v1.Agent/Rank";

std::int64_t wall_clock_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace

ClusterReports::ClusterReports(const Options& options, kubernetes::HttpClient& client,
                               const NodePods& pods, const Clock& clock, exports::Log& log,
                               const std::function<std::function<double()>()>& chances)
    : node_(options.node),
      pods_(pods),
      clock_(clock),
      log_(log),
      events_(options.node, wall_clock_seconds, chances()),
      annotation_events_(options.node, wall_clock_seconds, chances(), kAnnotationEventRate),
      targets_(wall_clock_seconds, chances()),
      state_(clock.now()),
      reporter_(options.node, options.taint, wall_clock_seconds, chances()),
      stalls_(options.stalls),
      report_builder_(options.node),
      report_writer_(options.node, chances()),
      status_({options.socket, kGetStatus, "", kStatusInterval, kCallLongest}, clock,
              [this](const std::string* message) { answered(message); }),
      ranking_({options.socket, kRank, "", Duration::zero(), kCallLongest}, clock,
               [this](const std::string* message) { ranked(message); }),
      event_sender_(client, events_, clock, EventSeries::kRequestsMax),
      annotation_sender_(client, annotation_events_, clock, 1),
      target_sender_(client, targets_, clock, DisruptionTargets::kRequestsMax),
      node_sender_(client, reporter_, clock, 1),
      report_sender_(client, report_writer_, clock, 1) {}

void ClusterReports::answered(const std::string* message) {
  v1::GetStatusResponse response;
  if (message == nullptr || !response.ParseFromString(*message)) return;
  const v1::AgentStatus& status = response.status();
  state_.answered(status, clock_.now());
  report_builder_.answered(status, clock_.now());
  if (status.has_config()) cgroup_root_ = status.config().cgroup_root();
  for (const AnnotationEvent& each : annotation_events(status.pods(), pods_)) {
    annotation_events_.offer(each.event, each.occurrence, clock_.now());
  }
}

// An agent may refuse a ranking.
void ClusterReports::ranked(const std::string* message) {
  v1::RankResponse response;
  if (message != nullptr && response.ParseFromString(*message)) {
    report_builder_.ranked(response, clock_.now());
  }
  report_builder_.ranking_ended(clock_.now());
}

// A ranking reads all cgroups of the pods. The periodic report waits for one that is under way; a
// report of a change does not.
void ClusterReports::report_node() {
  report_builder_.set_owner(reporter_.node_uid());
  if (report_builder_.has_changed(clock_.now())) build_report();
  if (ranking_.under_way() || report_builder_.needs_ranking(clock_.now())) ranking_.advance();
  if (!ranking_.under_way() && report_builder_.is_due(clock_.now())) build_report();
}

void ClusterReports::build_report() {
  auto report = report_builder_.build(read_stalls(stalls_), wall_clock_seconds(), clock_.now());
  if (report) report_writer_.set(*std::move(report), clock_.now());
}

void ClusterReports::killed(const KilledPod& pod) {
  ClusterEvent event;
  event.subject = {"Pod", pod.pod_namespace, pod.name, pod.uid};
  event.reason = "Evicted";
  // The Event of the earlier kill has the reason of the eviction, and keeps it. There is none if
  // this process was away at that kill.
  if (pod.repeats && events_.has(event.subject, event.reason)) return;
  event.message = pod.message.empty() ? "Forestall evicted the pod. " : pod.message;
  event.annotations = pod.annotations;
  events_.add(event, pod.kill.empty() ? pod.kill : pod.kill + ' ' + pod.uid, clock_.now());
  // Pressure may have begun with it.
  status_.make_due();
}

void ClusterReports::killed_by_kernel(const KernelKill& kill) {
  ClusterEvent event;
  event.subject = {"Node", "", node_, node_};
  if (const Pod* pod = pods_.of_cgroup(kill.cgroup, cgroup_root_)) {
    event.subject = {"Pod", pod->pod_namespace, pod->name, pod->uid};
  }
  event.reason = "KernelOOMKilled";
  event.message = kill.message;
  events_.add(event, "", clock_.now());
}

void ClusterReports::advance() {
  status_.advance();
  const MonotonicTime now = clock_.now();
  take_over(now);
  const auto condition = state_.report(now);
  if (condition && reporter_.found()) reporter_.set(*condition, now);
  target_sender_.advance();
  event_sender_.advance();
  annotation_sender_.advance();
  node_sender_.advance();
  report_node();
  report_sender_.advance();
  // A report with another owner than the node's present object is deleted.
  if (report_writer_.take_recreated()) reporter_.read_again(now);
  report();
}

// Pressure that an earlier process reported counts for the transition period of a later agent, too.
void ClusterReports::take_over(MonotonicTime now) {
  if (took_over_ || !reporter_.found()) return;
  took_over_ = true;
  const NodeObject& node = *reporter_.found();
  if (node.condition_status != "True") return;
  const auto written = intake::parse_wall_time(node.condition_heartbeat);
  if (!written) return;
  const Duration age = std::chrono::seconds(wall_clock_seconds()) - Duration(*written);
  state_.take_over(age >= Duration::zero() ? std::optional(now - age) : std::nullopt, now);
}

bool ClusterReports::advance_withdrawal() {
  node_sender_.advance();
  log_problem(node_problem_, reporter_.problem());
  return reporter_.reported() &&
         reporter_.reported()->pressure == NodeCondition::Pressure::withdrawn;
}

MonotonicTime ClusterReports::due() const {
  MonotonicTime first = status_.due();
  const auto ranking =
      ranking_.under_way() ? std::optional(ranking_.due()) : report_builder_.due(clock_.now());
  for (const auto& each :
       {target_sender_.due(), event_sender_.due(), annotation_sender_.due(), node_sender_.due(),
        report_sender_.due(), state_.due(clock_.now()), ranking}) {
    if (each) first = std::min(first, *each);
  }
  return first;
}

// Each change once.
void ClusterReports::report() {
  log_problem(event_problem_, events_.problem());
  log_problem(annotation_problem_, annotation_events_.problem());
  log_problem(target_problem_, targets_.problem());
  log_problem(node_problem_, reporter_.problem());
  log_problem(report_problem_, report_writer_.problem());
  const std::uint64_t dropped = events_.dropped() + annotation_events_.dropped();
  if (dropped != dropped_) {
    log_.write(LogLevel::warning, LogLine("events").field("dropped", dropped - dropped_));
    dropped_ = dropped;
  }
  const bool is_unguarded = reporter_.reported() && reporter_.reported()->unguarded;
  if (is_unguarded == was_unguarded_) return;
  was_unguarded_ = is_unguarded;
  log_.write(is_unguarded ? LogLevel::warning : LogLevel::info,
             LogLine("node").field("state", is_unguarded ? "unguarded" : "guarded"));
}

void ClusterReports::log_problem(Problem& problem, const std::string& text) {
  if (problem.text == text) return;
  problem.text = text;
  if (text.empty()) return;
  log_.write(LogLevel::warning, LogLine(problem.what).field("problem", text));
}

}  // namespace forestall::cluster
