// SPDX-License-Identifier: Apache-2.0
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>

#include "base/boottime_clock.h"
#include "cluster/rebalance_pages.h"
#include "cluster/rebalancer.h"

namespace forestall::cluster {
namespace {

using exports::LogLevel;
using exports::LogLine;

// A step shows the probes that the process works.
constexpr Duration kStepLongest = RebalanceMetrics::kBeatLongest / 4;
// An eviction that was sent, and what became of its pod. Less than terminationGracePeriodSeconds in
// scripts/deploy/kubernetes/rebalancer/deployment.yaml.
constexpr Duration kWithdrawLongest = std::chrono::seconds(25);

void log_start(const RebalancerOptions& options, exports::Log& log) {
  log.write(LogLevel::info, LogLine("start")
                                .field("server", options.access.server)
                                .field("policy", options.policy_file)
                                .field("dry_run", options.dry_run)
                                .field("identity", options.identity));
  for (const std::string& each : options.ineffective) {
    // The descheduler does not read it either, but its users expect the certificates in it.
    const bool is_directory = each == "--cert-dir";
    const char* const effect =
        is_directory ? "none; use --tls-cert-file and --tls-private-key-file" : "none";
    log.write(is_directory ? LogLevel::warning : LogLevel::info,
              LogLine("option").field("name", each).field("effect", effect));
  }
  if (options.listen.empty()) return;
  const bool is_old =
      options.tls.min_version == "VersionTLS10" || options.tls.min_version == "VersionTLS11";
  if (is_old) {
    log.write(LogLevel::info,
              LogLine("option").field("name", "--tls-min-version").field("effect", "TLS 1.2"));
  }
  std::string certificate = options.tls.certificate;
  if (certificate.empty()) {
    certificate = options.tls.sni.empty() ? "signs itself" : options.tls.sni.front();
  }
  log.write(LogLevel::info,
            LogLine("pages").field("address", options.listen).field("certificate", certificate));
}

}  // namespace

Result<void> run_rebalancer(const RebalancerOptions& options, exports::Log& log, int stop_fd) {
  const BoottimeClock clock;
  const auto rebalancer = TRY(Rebalancer::create(options, clock, log));
  log_start(options, log);
  const auto server = TRY(serve_pages(options, rebalancer->metrics(), log));
  signalfd_siginfo received{};
  while (!rebalancer->finished() &&
         ::read(stop_fd, &received, sizeof received) != sizeof received) {
    TRY(rebalancer->step(stop_fd, kStepLongest));
  }
  log.write(LogLevel::info, LogLine("stop"));
  if (const auto ended = rebalancer->withdraw(kWithdrawLongest); !ended) {
    log.write(
        LogLevel::warning,
        LogLine("stop")
            .field("problem", ended.error().text())
            .field("effect", "the Lease may stay until it expires, and Events may be missing"));
  }
  if (options.interval == Duration::zero()) return rebalancer->outcome();
  return {};
}

}  // namespace forestall::cluster
