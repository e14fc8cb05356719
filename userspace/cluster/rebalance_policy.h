// SPDX-License-Identifier: Apache-2.0
// The DeschedulerPolicy of a rebalancer in a cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/prometheus_queries.h"
#include "rebalance/policy.h"
#include "rebalance/snapshot.h"

namespace forestall::cluster {

// `compat`: "upstream", "fixed" or empty: as the policy has it. `classes` resolve priority
// thresholds by name; null: names are kept. Errors: all of the policy.
[[nodiscard]] Result<rebalance::Policy> read_policy(
    const std::string& file, const std::string& text, const std::string& compat,
    const std::vector<rebalance::PriorityClass>* classes);
// Its gracePeriodSeconds; nothing: it has none, or cannot be read.
[[nodiscard]] std::optional<std::int64_t> grace_of(const std::string& file,
                                                   const std::string& text);
// Its provider of the source Prometheus; nothing: it has none, or cannot be read.
[[nodiscard]] std::optional<PrometheusSettings> prometheus_of(const std::string& file,
                                                              const std::string& text);
// Of its plugins, each once.
[[nodiscard]] std::vector<std::string> prometheus_queries(const rebalance::Policy& policy);
// Its evictionFailureEventNotification; false if it cannot be read.
[[nodiscard]] bool reports_failures(const std::string& file, const std::string& text);
// Whether the use of nodes is collected with a period of its own, as in the descheduler.
[[nodiscard]] bool collects_node_metrics(const rebalance::Policy& policy);
// Reports of a node that a plugin compares; 0: none reads NodeReports.
[[nodiscard]] std::size_t reports_compared(const rebalance::Policy& policy);

}  // namespace forestall::cluster
