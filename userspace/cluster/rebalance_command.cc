// SPDX-License-Identifier: Apache-2.0
#include "cluster/rebalance_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <random>
#include <utility>

#include "base/go_bool.h"
#include "base/parse.h"
#include "cli/pod_input.h"
#include "intake/amounts.h"

namespace forestall::cluster {
namespace {

Result<void> set_duration(const char* option, const std::string& text, Duration least,
                          Duration& value) {
  constexpr Duration kMost = std::chrono::hours(24);
  if (text.empty()) return {};
  const auto read = intake::parse_duration_within(text, least, kMost);
  if (!read) return read.error().in(option);
  value = *read;
  return {};
}

Result<LeaseOptions> lease_options(const cli::RebalanceRunOptions& given,
                                   const std::string& identity) {
  constexpr Duration kLeast = std::chrono::milliseconds(100);
  LeaseOptions lease;
  lease.identity = identity;
  if (!given.lease_name.empty()) lease.name = given.lease_name;
  if (!given.lease_namespace.empty()) lease.lease_namespace = given.lease_namespace;
  TRY(set_duration("--leader-elect-lease-duration", given.lease_duration, kLeast, lease.lease));
  TRY(set_duration("--leader-elect-renew-deadline", given.renew_deadline, kLeast, lease.renew));
  TRY(set_duration("--leader-elect-retry-period", given.retry_period, kLeast, lease.retry));
  if (lease.lease > lease.renew && lease.renew > lease.retry) return lease;
  return error(
      "--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline, and that "
      "longer than --leader-elect-retry-period");
}

// Whether evictions in the background, the only gate, which is an alpha one, are on.
Result<bool> background_gate(std::string_view gates) {
  std::optional<bool> background;
  bool all_alpha = false;
  while (!gates.empty()) {
    std::string_view gate = trim(next_field(gates, ','));
    if (gate.empty()) continue;
    const bool has_value = gate.find('=') != std::string_view::npos;
    const std::string name(trim(next_field(gate, '=')));
    if (name != "EvictionsInBackground" && name != "AllAlpha" && name != "AllBeta") {
      return error("--feature-gates: unrecognized feature gate: " + name);
    }
    const auto value = parse_go_bool(trim(gate));
    if (!has_value || !value) {
      return error(fmt::format("--feature-gates: expected {}=true or {}=false", name, name));
    }
    if (name == "EvictionsInBackground") background = value;
    if (name == "AllAlpha") all_alpha = *value;
  }
  return background.value_or(all_alpha);
}

// Without an option as the descheduler, whose probes and scrapers use this port. A process with a
// kubeconfig is none of a Deployment, and opens no port by itself.
std::string listen_address(const cli::RebalanceRunOptions& given) {
  constexpr const char* kPort = "10258";
  const bool serves = given.kubeconfig.empty() || !given.bind_address.empty() ||
                      !given.certificate.empty() || !given.sni_certificates.empty() ||
                      !given.tls_version.empty() || !given.cipher_suites.empty();
  const std::string port = given.port.empty() && serves ? kPort : given.port;
  if (port.find_first_not_of('0') == std::string::npos) return "";
  const std::string address = given.bind_address.empty() ? "0.0.0.0" : given.bind_address;
  const bool is_v6 = address.find(':') != std::string::npos && !address.starts_with('[');
  return fmt::format("{}:{}", is_v6 ? '[' + address + ']' : address, port);
}

}  // namespace

Result<RebalancerOptions> rebalancer_options(const cli::RebalanceOptions& given,
                                             const std::string& identity) {
  RebalancerOptions options;
  options.identity = identity;
  options.policy_file = given.policy;
  options.policy = TRY(cli::read_input(given.policy));
  options.compat = given.compat;
  options.dry_run = given.dry_run;
  TRY(set_duration("--descheduling-interval", given.run.interval, Duration::zero(),
                   options.interval));
  TRY(checked_policy(options));
  options.listen = listen_address(given.run);
  options.metrics_page = !given.run.disable_metrics;
  options.tls = {given.run.certificate, given.run.key, given.run.tls_version,
                 given.run.cipher_suites, given.run.sni_certificates};
  if (!options.listen.empty()) TRY(TlsContexts::check(options.tls));
  options.background = TRY(background_gate(given.run.feature_gates));
  options.prometheus_ca = given.run.prometheus_ca;
  options.ineffective = given.run.ineffective;
  // As the descheduler: a dry run needs no election.
  if (!given.run.leader_elect || given.dry_run) return options;
  if (options.interval == Duration::zero()) {
    return error("leaderElection must be used with deschedulingInterval");
  }
  options.lease = TRY(lease_options(given.run, identity));
  return options;
}

std::string process_identity() {
  constexpr std::size_t kLongest = 256;
  std::array<char, kLongest> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::random_device device;
  return fmt::format("{}_{:08x}-{:08x}-{:08x}", host.data(), device(), device(), device());
}

}  // namespace forestall::cluster
