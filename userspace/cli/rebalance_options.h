// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace forestall::cli {

struct CommandLine;

// Of `rebalance simulate`.
struct SimulateOptions {
  bool enabled = false;
  std::vector<std::string> policies;  // files; none: the built-in ones
  std::vector<std::string> trace;     // files and directories; none: a synthetic cluster
  std::uint64_t max_gap_seconds = 0;  // between two states; 0: three times the usual one
  std::string page;                   // HTML file; empty: none
  bool force = false;                 // overwrite it
  std::uint64_t seed = 1;
  std::uint64_t nodes = 100;
  std::uint64_t pods_per_node = 20;
  std::uint64_t hours = 24;
  std::uint64_t interval_seconds = 0;  // whole minutes; 0: not given
  bool placeholders = false;           // replacements run where room was booked
};

// Of `rebalance` in a cluster. Durations as Go writes them; empty: not given.
struct RebalanceRunOptions {
  std::string kubeconfig;
  std::string prometheus_ca;
  std::string context;
  std::string interval;
  bool leader_elect = false;
  std::string lease_duration;
  std::string renew_deadline;
  std::string retry_period;
  std::string lease_name;
  std::string lease_namespace;
  std::string bind_address;
  std::string port;                             // of /metrics and the probes; 0: none
  std::string certificate;                      // PEM file; empty: one that signs itself
  std::string key;                              // PEM file
  std::vector<std::string> sni_certificates{};  // "CERTIFICATE,KEY:NAME,..."
  std::string tls_version;                      // "VersionTLS10" to "VersionTLS13"; empty: TLS 1.2
  std::string cipher_suites;  // names of IANA or Go, separated by commas; empty: default
  bool disable_metrics = false;
  std::string feature_gates;               // NAME=true|false, separated by commas
  std::string logging_format;              // "text", "json"; empty: not given
  std::vector<std::string> ineffective{};  // options of the descheduler without an effect here
};

// Of `rebalance`, and of `check-config` with a DeschedulerPolicy.
struct RebalanceOptions {
  std::string policy;                // DeschedulerPolicy; empty in check-config: another check
  std::vector<std::string> cluster;  // files with API objects; none: in a cluster
  std::vector<std::string> metrics;
  std::string history;   // moves of earlier plans; empty: none
  std::string now;       // RFC 3339; empty: the time of day
  std::string compat;    // "upstream", "fixed"; empty: as the policy has it
  bool dry_run = false;  // a plan from files evicts nothing in any case
  RebalanceRunOptions run;
  SimulateOptions simulate;

  [[nodiscard]] bool in_cluster() const { return cluster.empty() && !simulate.enabled; }
};

void describe_rebalance(CLI::App& command, CommandLine& line);
// CLI11 takes `--flag=` and `--flag={}` as a flag without a value, and the argument after
// `--option=` as the option's value. Where the arguments are those of `rebalance`, the value of
// such a flag is quoted, so that its check refuses it as Go does, and that of an option is the
// empty text.
[[nodiscard]] std::vector<std::string> with_empty_values(const CLI::App& command,
                                                         std::vector<std::string> arguments);
// The options that `check-config` has for a DeschedulerPolicy.
void describe_policy_check(CLI::App& command, RebalanceOptions& options);

}  // namespace forestall::cli
