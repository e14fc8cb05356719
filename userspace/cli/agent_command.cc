// SPDX-License-Identifier: Apache-2.0
// `forestall agent`: its options, and the exit code of each refusal.
#include <fmt/format.h>

#include "agent/daemon.h"
#include "agent/host.h"
#include "agent/instance_lock.h"
#include "cli/commands.h"
#include "cli/exit_code.h"

namespace forestall::cli {
namespace {

agent::DaemonOptions daemon_options(const Options& options) {
  agent::DaemonOptions daemon;
  daemon.verbose = options.verbose;
  daemon.prints_records = options.output == OutputFormat::json;
  daemon.config_origin = config_origin(options);
  daemon.status_socket = status_socket(options);
  daemon.api_socket = api_socket(options);
  daemon.load_config = [options](std::vector<std::string>& warnings) {
    return effective_config(options, warnings);
  };
  return daemon;
}

}  // namespace

int run_agent(const Options& options) {
  agent::block_loop_signals();
  std::vector<std::string> warnings;
  const auto config = effective_config(options, warnings);
  if (!config) {
    fmt::print(stderr, "{}\n", config.error().text());
    return kExitUsage;
  }
  const auto lock = agent::InstanceLock::take(options.run_directory);
  if (!lock) {
    const bool held = lock.error().code == EWOULDBLOCK;
    fmt::print(
        stderr, "forestall agent: {}\n",
        held ? lock.error().message : lock.error().text() + "; run as root, or set --run-dir");
    return held ? kExitOtherAgent : kExitFailed;
  }
  auto host = agent::probe_host(config->disabled, options.cgroup_mount);
  // A dry run needs a wake source, and no way to kill.
  const bool enough = host && (config->dry_run ? host->tier() != Tier::none : host->can_guard());
  if (!enough) {
    fmt::print(
        stderr, "forestall agent: {}; see `forestall doctor`\n",
        host ? "this host has no usable event source or no way to kill" : host.error().text());
    return kExitUnguarded;
  }
  return agent::run_daemon(daemon_options(options), *config, warnings, *host) ? kExitOk
                                                                              : kExitFailed;
}

}  // namespace forestall::cli
