// SPDX-License-Identifier: Apache-2.0
// forestall-cluster, which `forestall cluster`, `forestall rebalance` in a cluster and `kubectl
// forestall` execute. It is a separate program because the agent may kill and must have no network,
// and this one has the network and must not be able to kill.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "base/printable.h"
#include "base/take_signals.h"
#include "cli/agent_socket.h"
#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "cluster/app.h"
#include "cluster/kubectl_command.h"
#include "cluster/rebalance_command.h"
#include "cluster/successor.h"

namespace forestall::cluster {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int fail(const std::string& problem, int exit_code) {
  fmt::print(stderr, "forestall: {}\n", printable_lines(problem));
  return exit_code;
}

Result<kubernetes::Access> access_by(const std::string& kubeconfig, const std::string& context) {
  if (!kubeconfig.empty()) return kubernetes::read_kubeconfig(kubeconfig, context);
  return kubernetes::in_cluster_access(variable("KUBERNETES_SERVICE_HOST"),
                                       variable("KUBERNETES_SERVICE_PORT"));
}

int run_node(const cli::CommandLine& line) {
  const cli::ClusterOptions& given = line.cluster;
  AppOptions options;
  options.node = given.node.empty() ? variable("NODE_NAME") : given.node;
  if (options.node.empty()) {
    return fail("no node: use --node, or set NODE_NAME to spec.nodeName of the pod",
                cli::kExitUsage);
  }
  options.socket = cli::agent_socket(line.options);
  auto access = access_by(given.kubeconfig, given.context);
  if (!access) return fail(access.error().text(), cli::kExitFailed);
  options.access = *std::move(access);
  if (given.pdb == "respect") options.budgets = DisruptionBudgets::respect;
  options.taint = given.taint;
  options.daemon_set = given.daemon_set;
  if (const auto valid = check_daemon_set_name(options.daemon_set);
      !options.daemon_set.empty() && !valid) {
    return fail("--daemon-set: " + valid.error().text(), cli::kExitUsage);
  }
  const auto stop = take_signals({SIGTERM, SIGINT});  // before the log's thread exists
  if (!stop) return fail(stop.error().text(), cli::kExitFailed);
  exports::Log log(
      exports::Log::Stream::standard_error, true, exports::LogLevel::info, [] {},
      exports::default_log_format());
  if (::geteuid() == 0) {
    log.write(exports::LogLevel::warning,
              exports::LogLine("privileges")
                  .field("problem", "this process runs as root, and needs no privileges")
                  .field("remedy", "run it as another user, listed in apiUsers: podWriters"));
  }
  const auto ran = run_app(options, log, stop->get());
  return ran ? cli::kExitOk : fail(ran.error().text(), cli::kExitFailed);
}

int run_rebalance(const cli::CommandLine& line) {
  const cli::RebalanceRunOptions& given = line.rebalance.run;
  if (line.options.output == cli::OutputFormat::json) {
    return fail("-o json prints a plan from files; use --cluster FILE", cli::kExitUsage);
  }
  if (given.kubeconfig.empty() && !given.context.empty()) {
    return fail("--context is one of a kubeconfig; use --kubeconfig FILE", cli::kExitUsage);
  }
  if (given.kubeconfig.empty() && variable("KUBERNETES_SERVICE_HOST").empty()) {
    return fail(
        "not in a pod of a cluster (KUBERNETES_SERVICE_HOST is not set); use --kubeconfig FILE, or "
        "--cluster FILE for a plan from files",
        cli::kExitUsage);
  }
  auto options = rebalancer_options(line.rebalance, process_identity());
  if (!options) return fail(options.error().text(), cli::kExitUsage);
  auto access = access_by(given.kubeconfig, given.context);
  if (!access) return fail(access.error().text(), cli::kExitFailed);
  options->access = *std::move(access);
  const auto stop = take_signals({SIGTERM, SIGINT});  // before the log's thread exists
  if (!stop) return fail(stop.error().text(), cli::kExitFailed);
  exports::Log log(
      exports::Log::Stream::standard_error, true, exports::LogLevel::info, [] {},
      given.logging_format == "json" ? exports::LogFormat::json : exports::default_log_format());
  const auto ran = run_rebalancer(*options, log, stop->get());
  return ran ? cli::kExitOk : fail(ran.error().text(), cli::kExitFailed);
}

int run(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments.front() == "kubectl") {
    return run_kubectl({arguments.begin() + 1, arguments.end()});
  }
  cli::CommandLine line;
  if (const auto exit_code = parse_command_line(arguments, line)) return *exit_code;
  if (line.subcommand == cli::Subcommand::cluster) return run_node(line);
  if (line.subcommand == cli::Subcommand::rebalance && line.rebalance.in_cluster()) {
    return run_rebalance(line);
  }
  return fail("this program is run by `forestall cluster` and `forestall rebalance`",
              cli::kExitUsage);
}

}  // namespace
}  // namespace forestall::cluster

int main(int argc, char** argv) {
  // Our own code throws no exceptions. Those of libraries (bad_alloc) end here.
  try {
    return forestall::cluster::run({argv + 1, argv + argc});
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "forestall: %s\n", failure.what());
    return forestall::cli::kExitFailed;
  }
}
