// SPDX-License-Identifier: Apache-2.0
#include "cluster/kubectl_command.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/printable.h"
#include "cli/exit_code.h"
#include "kubernetes/access.h"

namespace forestall::cluster {
namespace {

std::string variable_or_empty(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<int> print_report(ApiReader& api, const KubectlOptions& options) {
  using Kind = KubectlOptions::Kind;
  if (options.command == Kind::rank) return print_rank(api, options);
  const auto make = options.command == Kind::why      ? report_pod
                    : options.command == Kind::events ? report_events
                                                      : report_nodes;
  const KubectlReport report = TRY(make(api, options));
  fmt::print("{}", report.text);
  for (const std::string& note : report.notes) fmt::print(stderr, "note: {}\n", printable(note));
  return cli::kExitOk;
}

Result<int> connect_and_report(KubectlOptions options) {
  const std::string path = TRY(kubeconfig_path(options.kubeconfig, variable_or_empty("KUBECONFIG"),
                                               variable_or_empty("HOME")));
  const kubernetes::Access access = TRY(kubernetes::read_kubeconfig(path, options.context));
  if (options.pod_namespace.empty()) options.pod_namespace = access.pod_namespace;
  if (options.pod_namespace.empty()) options.pod_namespace = "default";
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  options.wall_seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  ApiReader api = TRY(ApiReader::create(access));
  return print_report(api, options);
}

}  // namespace

Result<std::string> kubeconfig_path(const std::string& given, const std::string& variable,
                                    const std::string& home) {
  if (!given.empty()) return given;
  if (variable.find(':') != std::string::npos) {
    return error(fmt::format(
        "KUBECONFIG has several files ('{}'), which are not merged; select one with --kubeconfig",
        variable));
  }
  if (!variable.empty()) return variable;
  if (home.empty()) return error("HOME is not set; use --kubeconfig");
  return home + "/.kube/config";
}

int run_kubectl(const std::vector<std::string>& arguments) {
  KubectlOptions options;
  if (const auto exit_code = parse_kubectl_options(arguments, options)) return *exit_code;
  const auto ran = connect_and_report(options);
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (ran && is_written) return *ran;
  fmt::print(stderr, "kubectl forestall: {}\n",
             ran ? "cannot write to standard output; the output is incomplete"
                 : printable_lines(ran.error().text()));
  return cli::kExitFailed;
}

}  // namespace forestall::cluster
