// SPDX-License-Identifier: Apache-2.0
#include "cluster/kubectl_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/printable.h"
#include "cli/command_help.h"
#include "cli/exit_code.h"

namespace forestall::cluster {
namespace {

using Kind = KubectlOptions::Kind;

std::string check_format(const std::string& word) {
  if (word == "json" || word == "table") return {};
  return "unknown format '" + word + "'; use one of: json, table";
}

void describe_shared(CLI::App& app, KubectlOptions& options, std::string& format) {
  app.add_option("--kubeconfig", options.kubeconfig,
                 "Where the API server is (default: the file in KUBECONFIG, else ~/.kube/config)")
      ->option_text("FILE");
  app.add_option("--context", options.context,
                 "Context of the kubeconfig (default: its current-context)")
      ->option_text("NAME");
  app.add_option("-n,--namespace", options.pod_namespace, "Namespace (default: the context's)")
      ->option_text("NAME");
  app.add_option("-o,--output", format, "Output format (default: table)")
      ->option_text("json|table")
      ->check(check_format);
}

CLI::App* describe_command(CLI::App& parent, const char* name, const char* help) {
  CLI::App* command = parent.add_subcommand(name, help);
  // Options of kubectl may be given before and after the command.
  command->fallthrough();
  return command;
}

// "pods/web-0" is the same as "web-0", as for kubectl.
std::string without_kind(const std::string& name) {
  return name.substr(name.find('/') == std::string::npos ? 0 : name.find('/') + 1);
}

}  // namespace

std::optional<int> parse_kubectl_options(const std::vector<std::string>& arguments,
                                         KubectlOptions& options) {
  CLI::App app("What Forestall's agents did in this cluster, from the API server alone.",
               "kubectl forestall");
  cli::set_help_format(app);
  std::string format = "table";
  describe_shared(app, options, format);
  app.require_subcommand(1);
  CLI::App* top = describe_command(app, "top", "Memory pressure and evictions of the nodes");
  CLI::App* nodes = describe_command(*top, "nodes", "Pressure, guard and last report of each node");
  nodes->alias("node");
  top->require_subcommand(1);
  CLI::App* why = describe_command(app, "why", "Why a pod was evicted, or was not");
  why->add_option("pod", options.object, "The pod")->option_text("POD")->required();
  CLI::App* rank = describe_command(app, "rank", "The pods of a node in the order of eviction");
  rank->add_option("node", options.object, "The node")->option_text("NODE")->required();
  rank->add_option("--signal", options.signal, "Rank for this signal (default: memory.available)")
      ->option_text("SIGNAL");
  CLI::App* events = describe_command(app, "events", "Events of evictions and of kernel OOM kills");
  events->add_flag("-A,--all-namespaces", options.all_namespaces, "Events of all namespaces");
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return cli::kExitOk;
  } catch (const CLI::Error& failure) {
    fmt::print(stderr, "kubectl forestall: {}\n", printable_lines(failure.what()));
    return cli::kExitUsage;
  }
  options.json = format == "json";
  options.object = without_kind(options.object);
  if (why->parsed()) options.command = Kind::why;
  if (rank->parsed()) options.command = Kind::rank;
  if (events->parsed()) options.command = Kind::events;
  return std::nullopt;
}

}  // namespace forestall::cluster
