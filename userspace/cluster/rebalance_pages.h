// SPDX-License-Identifier: Apache-2.0
// The pages of a rebalancer: metrics and those of the probes, over TLS.
#pragma once

#include <memory>

#include "base/result.h"
#include "cluster/rebalance_metrics.h"
#include "cluster/rebalancer.h"
#include "exports/log.h"
#include "exports/metrics_server.h"

namespace forestall::cluster {

// Null: `options` has no address. `metrics` and `log` outlive the server, whose thread uses both:
// the log has a problem of changed certificates once, and the metrics have whether there is one.
// Errors: of the address and of TlsPages.
[[nodiscard]] Result<std::unique_ptr<exports::MetricsServer>> serve_pages(
    const RebalancerOptions& options, RebalanceMetrics& metrics, exports::Log& log);

}  // namespace forestall::cluster
