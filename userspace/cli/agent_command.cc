// SPDX-License-Identifier: Apache-2.0
// `forestall agent`: its options, and the exit code of each refusal.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "agent/host.h"
#include "agent/instance_lock.h"
#include "base/printable.h"
#include "cli/agent_rules.h"
#include "cli/commands.h"
#include "cli/companion_program.h"
#include "cli/exit_code.h"
#include "daemon/daemon.h"
#include "kernel/bpf_host.h"
#include "kernel/fd_store.h"
#include "kernel/guard_succession.h"
#include "kernel/pin_directory.h"

namespace forestall::cli {
namespace {

Result<intake::LoadedConfig> agent_config(const Options& options) {
  intake::LoadedConfig loaded = TRY(host_config(options, intake::FileTrust::required));
  TRY(add_agent_rules(options, loaded));
  return loaded;
}

daemon::DaemonOptions daemon_options(const Options& options) {
  daemon::DaemonOptions daemon;
  daemon.verbose = options.verbose;
  daemon.log_format = options.log_format.value_or(exports::default_log_format());
  daemon.prints_records = options.output == OutputFormat::json;
  daemon.config_origin = config_origin(options);
  daemon.api_socket = api_socket(options);
  daemon.load_config = [options] { return agent_config(options); };
  return daemon;
}

// Without its store the guard ends with the agent. That is no reason for the agent not to start.
void note_unkept(const Error& problem) {
  fmt::print(stderr, "forestall agent: {}; the guard ends with this agent\n",
             printable(problem.text()));
}

// A guard that the service manager has kept ends if this agent does not follow it: it would stay as
// long as this process has its descriptors.
void keep_guard(const Options& options, agent::ProbedHost& host) {
  auto descriptors = kernel::FdStore::inherit();
  if (options.keep_guard == "systemd") {
    host.guard_store = std::move(descriptors);
    return;
  }
  if (!descriptors->empty()) {
    const auto ended = kernel::drop_former_guards(*descriptors);
    if (!ended) note_unkept(ended.error());
  }
  if (options.keep_guard.empty()) return;
  auto pins = kernel::PinDirectory::open(options.keep_guard);
  if (pins) {
    host.guard_store = std::move(*pins);
  } else {
    note_unkept(pins.error());
  }
}

}  // namespace

int run_agent(const Options& options) {
  daemon::block_loop_signals();
  const auto loaded = agent_config(options);
  if (!loaded) {
    fmt::print(stderr, "{}\n", printable_lines(loaded.error().text()));
    return kExitUsage;
  }
  const Config& config = loaded->config;
  const auto lock = agent::InstanceLock::take(options.run_directory);
  if (!lock) {
    const int code = lock.error().code;
    const bool held = code == EWOULDBLOCK;
    const bool denied = code == EACCES || code == EPERM || code == EROFS;
    fmt::print(stderr, "forestall agent: {}{}\n", held ? lock.error().message : lock.error().text(),
               denied ? "; run as root, or set --run-dir" : "");
    return held ? kExitOtherAgent : kExitFailed;
  }
  // A dry run is refused as well: to it all pods would appear empty.
  if (const auto visible = kernel::require_initial_pid_namespace(); !visible.ok()) {
    fmt::print(stderr, "forestall agent: {}\n", visible.error().message);
    return kExitUnguarded;
  }
  auto host = agent::probe_host(config.disabled, options.cgroup_mount);
  if (host) {
    if (const auto program = companion_program(host->prekill_program)) {
      host->prekill_program = *program;
    }
    keep_guard(options, *host);
    host->high_records = kernel::SettingRecords(options.run_directory + "/memory-high");
    host->frozen_records = kernel::SettingRecords(options.run_directory + "/frozen");
    host->min_records = kernel::SettingRecords(options.run_directory + "/memory-min");
    host->low_records = kernel::SettingRecords(options.run_directory + "/memory-low");
  }
  // A dry run needs a wake source, and no way to kill.
  const bool enough = host && (config.dry_run ? host->tier() != Tier::none : host->can_guard());
  if (!enough) {
    fmt::print(
        stderr, "forestall agent: {}; see `forestall doctor`\n",
        host ? "this host has no usable event source or no way to kill" : host.error().text());
    return kExitUnguarded;
  }
  return daemon::run_daemon(daemon_options(options), *loaded, *host) ? kExitOk : kExitFailed;
}

}  // namespace forestall::cli
