// SPDX-License-Identifier: Apache-2.0
#include "cluster/rebalance_pages.h"

#include <string>
#include <utility>

#include "base/clock.h"
#include "cluster/tls_pages.h"
#include "exports/log_line.h"

namespace forestall::cluster {
namespace {

void report_certificate(const std::string& problem, RebalanceMetrics& metrics, exports::Log& log) {
  metrics.set_certificate_stale(!problem.empty());
  if (problem.empty()) {
    log.write(exports::LogLevel::info,
              exports::LogLine("certificate").field("effect", "the changed files are in force"));
    return;
  }
  log.write(exports::LogLevel::warning,
            exports::LogLine("certificate")
                .field("problem", problem)
                .field("effect", "the former certificate stays in force"));
}

}  // namespace

Result<std::unique_ptr<exports::MetricsServer>> serve_pages(const RebalancerOptions& options,
                                                            RebalanceMetrics& metrics,
                                                            exports::Log& log) {
  if (options.listen.empty()) return std::unique_ptr<exports::MetricsServer>();
  const std::shared_ptr<TlsPages> tls =
      TRY(TlsPages::create(options.tls, [&metrics, &log](const std::string& problem) {
        report_certificate(problem, metrics, log);
      }));
  return exports::MetricsServer::start(
      options.listen,
      [&metrics, page = options.metrics_page](const exports::HttpRequest& request) {
        return metrics.page(request, page, SystemClock().now());
      },
      [tls](int fd) { return tls->transport(fd, SystemClock().now()); });
}

}  // namespace forestall::cluster
