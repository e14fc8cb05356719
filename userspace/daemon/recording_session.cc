// SPDX-License-Identifier: Apache-2.0
#include "daemon/recording_session.h"

#include <chrono>
#include <utility>

#include "agent/core.h"
#include "agent/loop.h"
#include "daemon/daemon.h"
#include "daemon/daemon_log.h"
#include "daemon/daemon_parts.h"
#include "kernel/bpf_host.h"
#include "kernel/scheduling.h"

namespace forestall::daemon {
namespace {

// As the daemon does, without any service and without an action.
Result<recording::WriterTotals> record(const RecordingSession& session, const Config& config,
                                       agent::ProbedHost& host, exports::Log& log) {
  DaemonParts parts;
  TRY(build_parts(parts, host, config, log, nullptr));
  agent::protect_self(host, config.disabled);
  parts.watchdog = TRY(agent::Watchdog::create(host.tree, parts.clock, false));
  log_start(log, host, config, session.config_origin);
  const auto facts =
      agent::recording_facts(host, messages::RecordedBy::session, session.config_origin);
  TRY(parts.session.recorder->start(session.target, facts, agent::Recorder::kInterval));
  parts.board.set_config(config);
  const agent::Parts core_with = core_parts(parts, host, log);
  agent::Core core(core_with, config);
  agent::LoopHooks hooks;
  hooks.reload = []() -> Result<Config> { return error("a recording keeps its configuration"); };
  if (session.duration) hooks.end_at = parts.clock.now() + *session.duration;
  const auto ended = agent::run_loop(core, core_with, hooks);
  // The recording is complete however the loop ended.
  auto totals = parts.session.recorder->stop();
  TRY(ended);
  return totals;
}

}  // namespace

Result<recording::WriterTotals> run_recording_session(const RecordingSession& session,
                                                      const Config& config) {
  block_loop_signals();
  TRY(kernel::require_initial_pid_namespace());
  auto host = TRY(agent::probe_host(config.disabled, session.cgroup_mount));
  if (host.tier() == Tier::none) {
    return error("no usable event source on this host; see `forestall doctor`");
  }
  exports::Log log(exports::Log::Stream::standard_error, /*stamped=*/true,
                   log_level(session.verbose), kernel::use_service_priority,
                   exports::default_log_format());
  return record(session, config, host, log);
}

}  // namespace forestall::daemon
