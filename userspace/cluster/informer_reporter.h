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

// Which states of an informer the log gets. Without the right to watch, for example, a problem
// recurs after each list: it is one until it has not recurred for a while, and is logged seldom.
class InformerLogFilter {
 public:
  // Between two lines of the same problem.
  static constexpr Duration kRepeat = std::chrono::hours(1);
  // Between two lines of different problems, and until a problem is over.
  static constexpr Duration kProblemLongest = std::chrono::minutes(5);

  // Whether this state is logged. `problem`: empty: none.
  [[nodiscard]] bool passes(bool current, const std::string& problem, MonotonicTime now);

 private:
  bool is_news(bool current, const std::string& problem, MonotonicTime now) const;
  [[nodiscard]] bool may_recur(MonotonicTime now) const {
    return !problem_.empty() && now - problem_seen_ < kProblemLongest;
  }

  bool current_ = false;
  std::string problem_;  // as last logged, until it is over
  MonotonicTime logged_{};
  MonotonicTime problem_seen_{};
};

class InformerReporter {
 public:
  // Metrics are set at most so often, /readyz at once.
  static constexpr Duration kInterval = std::chrono::milliseconds(500);

  void report(const ClusterInformers& informers, PacedLog& log, RebalanceMetrics& metrics,
              MonotonicTime now);

 private:
  void log_changes(const Informer& informer, PacedLog& log, MonotonicTime now);

  std::map<std::string, InformerLogFilter, std::less<>> filters_;  // by resource
  MonotonicTime next_{};
};

}  // namespace forestall::cluster
