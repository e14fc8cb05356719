// SPDX-License-Identifier: Apache-2.0
#include "agent/recording_session.h"

#include <chrono>
#include <utility>

#include "agent/core.h"
#include "agent/daemon.h"
#include "agent/daemon_log.h"
#include "agent/daemon_parts.h"
#include "agent/loop.h"
#include "kernel/scheduling.h"

namespace forestall::agent {
namespace {

// As the daemon does, without any service and without an action.
Result<recording::Totals> record(const RecordingSession& session, const Config& config, Host& host,
                                 exports::Log& log) {
  DaemonParts parts;
  TRY(build_parts(parts, host, config, log, nullptr));
  protect_self(host, config.disabled);
  parts.watchdog = TRY(Watchdog::create(host.tree, parts.clock, false));
  log_start(log, host, config, session.config_origin);
  const auto facts = recording_facts(host, api::Recorder::session, session.config_origin);
  TRY(parts.session.recorder->start(session.target, facts, std::chrono::seconds(1)));
  parts.board.set_config(config);
  const Parts core_with = core_parts(parts, host, log);
  Core core(core_with, config);
  LoopHooks hooks;
  hooks.reload = []() -> Result<Config> { return error("a recording keeps its configuration"); };
  if (session.duration) hooks.end_at = parts.clock.now() + *session.duration;
  const auto ended = run_loop(core, core_with, hooks);
  // The recording is complete however the loop ended.
  auto totals = parts.session.recorder->stop();
  TRY(ended);
  return totals;
}

}  // namespace

Result<recording::Totals> run_recording_session(const RecordingSession& session,
                                                const Config& config) {
  block_loop_signals();
  auto host = TRY(probe_host(config.disabled, session.cgroup_mount));
  if (host.tier() == Tier::none) {
    return error("no usable event source on this host; see `forestall doctor`");
  }
  exports::Log log(exports::Log::Stream::standard_error, /*stamped=*/true,
                   log_level(session.verbose), kernel::use_service_priority);
  return record(session, config, host, log);
}

}  // namespace forestall::agent
