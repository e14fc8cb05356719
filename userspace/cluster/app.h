// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/cluster_reports.h"
#include "cluster/evictions.h"
#include "cluster/kill_watch.h"
#include "cluster/node_check.h"
#include "cluster/node_pods.h"
#include "cluster/pod_writer.h"
#include "cluster/request_sender.h"
#include "exports/log.h"
#include "kubernetes/http_client.h"
#include "kubernetes/object_watch.h"

namespace forestall::cluster {

struct AppOptions {
  std::string node;    // spec.nodeName of the pods
  std::string socket;  // the agent's
  kubernetes::Access access;
  DisruptionBudgets budgets = DisruptionBudgets::ignore;
  bool taint = false;      // the node, while the agent reports memory pressure
  std::string daemon_set;  // NAMESPACE/NAME, of which this process is; empty: of none
};

// Watches the pods of one node and writes them to the agent; evicts the pods that the agent killed,
// so that the kubelet does not start their containers again, and reports to the cluster. Thread
// rule: one thread.
class App {
 public:
  // `log` and `clock` outlive this. Errors: libcurl cannot be used.
  static Result<std::unique_ptr<App>> create(const AppOptions& options, const Clock& clock,
                                             exports::Log& log);
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  // One round: waits for work, until `stop_fd` is readable or for at most `longest`, and does it.
  [[nodiscard]] Result<void> step(int stop_fd, Duration longest);
  // Removes the node's condition and taint, unless a process of the same DaemonSet will follow and
  // take them over. Errors: not done within `longest`. No step() afterwards.
  [[nodiscard]] Result<void> end(Duration longest);

 private:
  App(const AppOptions& options, const Clock& clock, exports::Log& log,
      std::unique_ptr<kubernetes::HttpClient> client);
  [[nodiscard]] Result<void> withdraw(MonotonicTime end);
  [[nodiscard]] Result<std::string> why_withdraw(MonotonicTime end);
  [[nodiscard]] Result<kubernetes::AnswerCollector> fetch(
      const kubernetes::OutgoingRequest& request, MonotonicTime end);
  [[nodiscard]] MonotonicTime due() const;
  void report();
  void report_evictions();
  void report_pods();
  void killed(const KilledPod& pod);

  const Clock& clock_;
  exports::Log& log_;
  const std::string daemon_set_;
  NodePods pods_;
  const std::unique_ptr<kubernetes::HttpClient> client_;
  NodeCheck node_;
  kubernetes::ListWatch watch_;
  kubernetes::ObjectWatch objects_;
  PodWriter writer_;
  Evictions evictions_;
  RequestSender sender_;
  ClusterReports reports_;
  KillWatch kills_;
  // As last logged.
  bool was_complete_ = false;
  std::string api_problem_;
  std::string agent_problem_;
  std::string node_problem_;
  std::string unreadable_;
  std::string shortened_;
  std::string eviction_problem_;
  std::uint64_t lost_kills_ = 0;
};

// Until a signal can be read from `stop_fd`, a signalfd that does not block.
[[nodiscard]] Result<void> run_app(const AppOptions& options, exports::Log& log, int stop_fd);

}  // namespace forestall::cluster
