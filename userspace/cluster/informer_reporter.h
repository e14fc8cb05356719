// SPDX-License-Identifier: Apache-2.0
// Reports how current the informers are: in the log when it changes, in the metrics and in /readyz.
#pragma once

#include <map>
#include <string>

#include "base/clock.h"
#include "cluster/cluster_informers.h"
#include "cluster/paced_log.h"
#include "cluster/rebalance_metrics.h"

namespace forestall::cluster {

class InformerReporter {
 public:
  // Metrics are set at most so often, /readyz at once.
  static constexpr Duration kInterval = std::chrono::milliseconds(500);

  void report(const ClusterInformers& informers, PacedLog& log, RebalanceMetrics& metrics,
              MonotonicTime now);

 private:
  // As last logged.
  struct Logged {
    bool current = false;
    std::string problem;
  };

  void log_changes(const Informer& informer, PacedLog& log);

  std::map<std::string, Logged, std::less<>> logged_;  // by resource
  MonotonicTime next_{};
};

}  // namespace forestall::cluster
