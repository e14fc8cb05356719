// SPDX-License-Identifier: Apache-2.0
// Reports to the cluster what the agent did and how the node is: Events, the condition
// DisruptionTarget of evicted pods, the node's condition, taint and annotation, and its NodeReport.
#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cluster/agent_call_reader.h"
#include "cluster/disruption_targets.h"
#include "cluster/event_series.h"
#include "cluster/kill_report.h"
#include "cluster/node_pods.h"
#include "cluster/node_report_builder.h"
#include "cluster/node_report_writer.h"
#include "cluster/node_reporter.h"
#include "cluster/node_state.h"
#include "cluster/request_sender.h"
#include "exports/log.h"
#include "kubernetes/http_client.h"

namespace forestall::cluster {

// Thread rule: the client's thread.
class ClusterReports {
 public:
  struct Options {
    std::string node;
    std::string socket;  // the agent's
    bool taint = false;
    std::string stalls = "/proc/pressure/memory";
  };
  // Of the agent's status.
  static constexpr Duration kStatusInterval = std::chrono::seconds(5);
  static constexpr Duration kCallLongest = std::chrono::seconds(3);

  // All outlive this. `chances` makes functions that return numbers in [0, 1).
  ClusterReports(const Options& options, kubernetes::HttpClient& client, const NodePods& pods,
                 const Clock& clock, exports::Log& log,
                 const std::function<std::function<double()>()>& chances);

  // A kill began or ended; several calls of the same kill are one.
  void killed(const KilledPod& pod);
  void killed_by_kernel(const KernelKill& kill);
  // The API server has accepted its eviction, or another deletion.
  void evicted(const KilledPod& pod) { targets_.add(pod, clock_.now()); }

  // Whether the server has the Eviction of policy/v1, once for each answer about its version.
  [[nodiscard]] std::optional<bool> take_eviction_v1() { return targets_.take_eviction_v1(); }

  // Takes answers and sends what is due. After HttpClient::advance().
  void advance();
  // Begins to remove what the node's object reports of the agent: this process ends.
  void withdraw() { reporter_.withdraw(clock_.now()); }
  // Instead of advance(), after withdraw(). True: it is removed.
  [[nodiscard]] bool advance_withdrawal();
  // When advance_withdrawal() next has work in any case; nothing: not by time alone.
  [[nodiscard]] std::optional<MonotonicTime> withdrawal_due() const { return node_sender_.due(); }
  // What to poll for; of fd -1 nothing.
  [[nodiscard]] std::array<pollfd, 2> poll() const { return {status_.poll(), ranking_.poll()}; }
  // When advance() next has work in any case.
  [[nodiscard]] MonotonicTime due() const;

 private:
  struct Problem {
    std::string what;
    std::string text;  // as last logged
  };

  void report();
  void log_problem(Problem& problem, const std::string& text);

  void take_over(MonotonicTime now);
  void answered(const std::string* message);
  void ranked(const std::string* message);
  void report_node();
  void build_report();

  const std::string node_;
  std::string cgroup_root_ = "/";  // of the pods, as the agent reports it
  const NodePods& pods_;
  const Clock& clock_;
  exports::Log& log_;
  EventSeries events_;
  EventSeries annotation_events_;
  DisruptionTargets targets_;
  NodeState state_;
  NodeReporter reporter_;
  const std::string stalls_;
  NodeReportBuilder report_builder_;
  NodeReportWriter report_writer_;
  AgentCallReader status_;
  AgentCallReader ranking_;
  RequestSender event_sender_;
  RequestSender annotation_sender_;
  RequestSender target_sender_;
  RequestSender node_sender_;
  RequestSender report_sender_;
  // As last logged.
  Problem event_problem_{"events", {}};
  Problem annotation_problem_{"events", {}};
  Problem target_problem_{"pod-condition", {}};
  Problem node_problem_{"node", {}};
  Problem report_problem_{"node-report", {}};
  std::uint64_t dropped_ = 0;
  bool took_over_ = false;
  bool was_unguarded_ = false;
};

}  // namespace forestall::cluster
