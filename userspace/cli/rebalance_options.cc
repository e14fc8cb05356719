// SPDX-License-Identifier: Apache-2.0
#include "cli/rebalance_options.h"

#include <CLI/CLI.hpp>

#include "base/go_bool.h"
#include "base/parse.h"
#include "cli/command_line.h"

namespace forestall::cli {
namespace {

constexpr const char* kClusterHelp =
    "Plan from files: the state of the cluster, as `kubectl get -A -o json` prints nodes, pods, "
    "namespaces, "
    "poddisruptionbudgets, priorityclasses, persistentvolumeclaims, persistentvolumes, replicasets "
    "and nodereports; may be repeated";

std::string refuse_empty(const std::string& value) {
  return value.empty() ? "must not be empty" : "";
}

CLI::Option* add_files(CLI::App& command, const char* name, std::vector<std::string>& files,
                       const char* help) {
  return command.add_option(name, files, help)
      ->option_text("FILE...")
      ->expected(1, -1)
      ->check(refuse_empty);
}

CLI::Option* add_policy(CLI::App& command, RebalanceOptions& options) {
  return command
      .add_option("--policy-config-file", options.policy,
                  "DeschedulerPolicy (descheduler/v1alpha2 or v1alpha1), YAML or JSON")
      ->option_text("FILE")
      ->check(refuse_empty);
}

// A flag of the descheduler, with Go's words for its value. CLI11 accepts more, such as `yes` and
// `on`, and a Deployment with those would not start with the descheduler.
CLI::Option* as_go_flag(CLI::Option* flag) {
  return flag->check([](const std::string& word) {
    if (parse_go_bool(word)) return std::string();
    return word + " is neither true nor false (1, t, T, TRUE, true, True, 0, f, F, FALSE, false, " +
           "False)";
  });
}

void describe_simulate(CLI::App& command, SimulateOptions& options) {
  constexpr std::uint64_t kNodesMax = 5000;
  constexpr std::uint64_t kPodsMax = 110;
  constexpr std::uint64_t kHoursMax = 24 * 14;
  constexpr std::uint64_t kDay = 86'400;
  constexpr std::uint64_t kMinute = 60;
  constexpr std::uint64_t kWeek = 7 * kDay;
  const auto add_count = [&](const char* name, std::uint64_t& value, std::uint64_t least,
                             std::uint64_t most, const char* help) {
    return command.add_option(name, value, help)->option_text("N")->check(CLI::Range(least, most));
  };
  CLI::Option* const trace =
      command
          .add_option("--trace", options.trace,
                      "Play recorded states of a cluster instead of a synthetic one: files as for "
                      "--cluster and --metrics, whose names begin with their time "
                      "(2026-01-02T15:04:05Z or Unix seconds), or directories of them; files of "
                      "one time are one state")
          ->option_text("PATH...")
          ->expected(1, -1)
          ->check(refuse_empty);
  add_count("--max-gap", options.max_gap_seconds, 1, kWeek,
            "Longest time between two states, in seconds (default: three times the usual one)")
      ->needs(trace);
  add_files(command, "--policy", options.policies,
            "DeschedulerPolicies to compare (default: LowNodeUtilization as upstream and fixed, "
            "and NodePressure)");
  CLI::Option* const page =
      command
          .add_option("--page", options.page, "Also write a self-contained HTML page with plots")
          ->option_text("FILE");
  command.add_flag("--force", options.force, "Overwrite the page")->needs(page);
  add_count("--nodes", options.nodes, 2, kNodesMax, "Nodes (default: 100)")->excludes(trace);
  add_count("--pods-per-node", options.pods_per_node, 1, kPodsMax, "Pods per node (default: 20)")
      ->excludes(trace);
  add_count("--hours", options.hours, 1, kHoursMax, "Simulated time (default: 24)")
      ->excludes(trace);
  command
      .add_option(
          "--interval", options.interval_seconds,
          "Seconds between two plans, in whole minutes (default: 300; of a trace: a plan for "
          "each state)")
      ->option_text("N")
      ->check(CLI::Range(kMinute, kDay))
      ->check([](const std::string& word) {
        const auto number = parse_u64(word);
        return number && *number % kMinute == 0 ? std::string() : word + " is not in whole minutes";
      });
  command.add_option("--seed", options.seed, "What all random numbers follow from (default: 1)")
      ->option_text("N")
      ->excludes(trace);
  command.add_flag("--placeholders", options.placeholders,
                   "Replacements run where the plan booked room for them, as if placeholder pods "
                   "held it; without, the scheduler places them");
}

constexpr const char* kClusterGroup = "In a cluster";

// So that the arguments of the descheduler's Deployment do.
void describe_ineffective(CLI::App& command, RebalanceRunOptions& run, CLI::Option* files) {
  constexpr const char* kNames[] = {
      "--v,-v",
      "--vmodule",
      "--log-flush-frequency",
      "--client-connection-qps",
      "--client-connection-burst",
      "--otel-collector-endpoint",
      "--otel-transport-ca-cert",
      "--otel-service-name",
      "--otel-trace-namespace",
      "--otel-sample-rate",
      "--http2-max-streams-per-connection",
  };
  for (const std::string name : kNames) {
    const std::string shown = name.substr(0, name.find(','));
    command
        .add_option_function<std::string>(
            name, [&run, shown](const std::string&) { run.ineffective.push_back(shown); },
            "Of the descheduler; without effect")
        ->option_text("VALUE")
        ->group(kClusterGroup)
        ->excludes(files);
  }
  for (const std::string name :
       {"--otel-fallback-no-op-on-error", "--enable-http2", "--disable-http2-serving",
        "--permit-address-sharing", "--permit-port-sharing"}) {
    as_go_flag(command.add_flag_function(
                   name, [&run, name](std::int64_t) { run.ineffective.push_back(name); },
                   "Of the descheduler; without effect"))
        ->group(kClusterGroup)
        ->excludes(files);
  }
  command
      .add_option_function<std::string>(
          "--cert-dir", [&run](const std::string&) { run.ineffective.emplace_back("--cert-dir"); },
          "Of the descheduler, which does not read it either; without effect: use --tls-cert-file")
      ->option_text("VALUE")
      ->group(kClusterGroup)
      ->excludes(files);
  command
      .add_option_function<std::string>(
          "--leader-elect-resource-lock",
          [&run](const std::string&) {
            run.ineffective.emplace_back("--leader-elect-resource-lock");
          },
          "Of the descheduler; without effect")
      ->option_text("leases")
      ->check(CLI::IsMember({"leases"}))
      ->group(kClusterGroup)
      ->excludes(files);
}

void describe_server(CLI::App& command, RebalanceRunOptions& run, CLI::Option* files) {
  constexpr std::uint64_t kPortMax = 65535;
  const auto add = [&](const char* name, auto& value, const char* form, const char* help) {
    return command.add_option(name, value, help)
        ->option_text(form)
        ->group(kClusterGroup)
        ->excludes(files);
  };
  add("--secure-port", run.port, "PORT",
      "Port of /metrics, /healthz, /livez and /readyz, over HTTPS; 0: none (default: 10258, with "
      "--kubeconfig none)")
      ->check(CLI::Range(std::uint64_t{0}, kPortMax));
  add("--bind-address", run.bind_address, "ADDRESS",
      "IP address of that port (default: 0.0.0.0, all)")
      ->check(refuse_empty);
  CLI::Option* const certificate =
      add("--tls-cert-file", run.certificate, "FILE",
          "Certificate of that port, PEM, with its chain; read again when it changes (default: one "
          "that signs itself)");
  CLI::Option* const key = add("--tls-private-key-file", run.key, "FILE", "Its private key, PEM");
  certificate->needs(key);
  key->needs(certificate);
  add("--tls-sni-cert-key", run.sni_certificates, "FILE,FILE[:NAME,...]",
      "A certificate and its key for clients that request these names, or those in the "
      "certificate; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add("--tls-min-version", run.tls_version, "VERSION",
      "VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13; the first two as VersionTLS12 "
      "(default)")
      ->check(CLI::IsMember({"VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"}));
  add("--tls-cipher-suites", run.cipher_suites, "NAME,...",
      "Cipher suites of TLS 1.2, by the names of IANA or Go (default: those of OpenSSL)");
  command
      .add_option("--feature-gates", run.feature_gates,
                  "EvictionsInBackground=true: if a webhook answers that it moves a pod by itself, "
                  "the eviction counts and is not requested again (default: false)")
      ->option_text("NAME=BOOL,...")
      ->group(kClusterGroup)
      ->excludes(files);
  as_go_flag(command.add_flag("--disable-metrics", run.disable_metrics, "No page /metrics"))
      ->group(kClusterGroup)
      ->excludes(files);
  command
      .add_option("--logging-format", run.logging_format,
                  "text or json (default: text on a terminal, else logfmt)")
      ->option_text("FORMAT")
      ->check(CLI::IsMember({"text", "json"}))
      ->group(kClusterGroup)
      ->excludes(files);
}

void describe_run(CLI::App& command, RebalanceRunOptions& run, CLI::Option* files) {
  const auto add = [&](const char* name, std::string& value, const char* form, const char* help,
                       CLI::Option* needed = nullptr) {
    CLI::Option* const added =
        command.add_option(name, value, help)->option_text(form)->group(kClusterGroup);
    return needed == nullptr ? added->excludes(files) : added->needs(needed);
  };
  CLI::Option* const kubeconfig =
      add("--kubeconfig,--client-connection-kubeconfig", run.kubeconfig, "FILE",
          "Where the API server is (default: the pod's service account)");
  add("--context", run.context, "NAME", "Context of the kubeconfig (default: its current-context)",
      kubeconfig);
  add("--prometheus-ca-file", run.prometheus_ca, "FILE",
      "Certificate authorities of the policy's https server of Prometheus, PEM (default: those of "
      "the service account, else of the kubeconfig)")
      ->check([](const std::string& file) {
        return file.empty() ? refuse_empty(file) : CLI::ExistingFile(file);
      });
  add("--descheduling-interval", run.interval, "DURATION",
      "From the begin of a plan to that of the next (default: 0, one plan)")
      ->check(refuse_empty);
  // What it needs depends on its value. Its options may be given without it, as the descheduler's.
  as_go_flag(command.add_flag("--leader-elect", run.leader_elect,
                              "Evict only while this process holds a Lease; ignored in a dry run"))
      ->group(kClusterGroup)
      ->excludes(files);
  add("--leader-elect-lease-duration", run.lease_duration, "DURATION",
      "How long other processes wait after the last renewal (default: 137s)")
      ->check(refuse_empty);
  add("--leader-elect-renew-deadline", run.renew_deadline, "DURATION",
      "How long the leader evicts after its last renewal (default: 107s)")
      ->check(refuse_empty);
  add("--leader-elect-retry-period", run.retry_period, "DURATION",
      "Between two attempts to renew or to acquire (default: 26s)")
      ->check(refuse_empty);
  add("--leader-elect-resource-name", run.lease_name, "NAME",
      "Name of the Lease (default: descheduler)")
      ->check(refuse_empty);
  add("--leader-elect-resource-namespace", run.lease_namespace, "NAMESPACE",
      "Namespace of the Lease (default: kube-system)")
      ->check(refuse_empty);
}

// As pflag: the last one counts. Lists and maps are joined.
void accept_repeated(CLI::App& command) {
  for (CLI::Option* const each : command.get_options()) {
    const bool is_single = each->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw;
    if (!is_single || each->get_group() != kClusterGroup) continue;
    each->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  for (const char* const list : {"--feature-gates", "--tls-cipher-suites"}) {
    command.get_option(list)->delimiter(',')->multi_option_policy(CLI::MultiOptionPolicy::Join);
  }
}

}  // namespace

void describe_rebalance(CLI::App& command, CommandLine& line) {
  RebalanceOptions& options = line.rebalance;
  CLI::Option* const policy = add_policy(command, options)->required();
  CLI::Option* const cluster = add_files(command, "--cluster", options.cluster, kClusterHelp);
  add_files(command, "--metrics", options.metrics,
            "NodeMetrics and PodMetrics as `kubectl get --raw /apis/metrics.k8s.io/v1beta1/...` "
            "prints them, in the order of their collection, or answers of Prometheus")
      ->needs(cluster);
  command
      .add_option("--compat", options.compat,
                  "upstream: decide exactly as the descheduler; fixed: correct its known faults, "
                  "which -o json lists (default: the policy's key compat, or upstream)")
      ->option_text("MODE")
      ->check(CLI::IsMember({"upstream", "fixed"}));
  command
      .add_option("--history", options.history,
                  "What an earlier plan printed with -o json: pods that its moves concern are not "
                  "moved again within the policy's pacing")
      ->option_text("FILE")
      ->check(refuse_empty)
      ->needs(cluster);
  as_go_flag(command.add_flag("--dry-run", options.dry_run,
                              "Log the plan and evict nothing; a plan from files never evicts"));
  command
      .add_option("--now", options.now,
                  "The time for which the plan is made, such as 2026-01-02T15:04:05Z (default: "
                  "the time of day)")
      ->option_text("TIME")
      ->check(refuse_empty)
      ->needs(cluster);
  describe_run(command, options.run, cluster);
  describe_server(command, options.run, cluster);
  describe_ineffective(command, options.run, cluster);
  accept_repeated(command);
  policy->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  CLI::App& simulate = *command.add_subcommand(
      "simulate",
      "Play a synthetic cluster, or recorded states of one, through policies over hours, side by "
      "side");
  // Of the options so far it has none; -o follows later and falls through to the command.
  for (CLI::Option* const each : command.get_options()) {
    if (each != command.get_help_ptr()) simulate.excludes(each);
  }
  simulate.preparse_callback([policy, &options](std::size_t) {
    policy->required(false);
    options.simulate.enabled = true;
  });
  simulate.group("Subcommands");
  simulate.fallthrough();
  describe_simulate(simulate, options.simulate);
}

std::vector<std::string> with_empty_values(const CLI::App& command,
                                           std::vector<std::string> arguments) {
  if (arguments.empty() || arguments.front() != command.get_name()) return arguments;
  std::vector<std::string> accepted;
  for (std::string& each : arguments) {
    const std::size_t equals = each.find('=');
    const std::string name = each.substr(0, equals);
    const CLI::Option* const option =
        equals == std::string::npos ? nullptr : command.get_option_no_throw(name);
    const std::string value = option == nullptr ? "" : each.substr(equals + 1);
    const int values = option == nullptr ? -1 : option->get_items_expected_max();
    if (values == 0 && (value.empty() || value == "{}")) {
      accepted.push_back(name + "=\"" + value + '"');
    } else if (values >= 1 && value.empty()) {
      accepted.insert(accepted.end(), {name, ""});
    } else {
      accepted.push_back(std::move(each));
    }
  }
  return accepted;
}

void describe_policy_check(CLI::App& command, RebalanceOptions& options) {
  constexpr const char* kGroup = "DeschedulerPolicy";
  CLI::Option* const policy = add_policy(command, options)->group(kGroup);
  add_files(command, "--cluster", options.cluster,
            "Objects of the cluster, of which PriorityClasses resolve thresholds by name")
      ->needs(policy)
      ->group(kGroup);
}

}  // namespace forestall::cli
