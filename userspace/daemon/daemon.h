// SPDX-License-Identifier: Apache-2.0
// The running agent: builds its parts, arms the sources, serves its API and runs the loop. Every
// refusal comes before the first line is armed, so that an agent that reports READY does its job.
#pragma once

#include <functional>
#include <string>

#include "agent/host.h"
#include "base/result.h"
#include "exports/log.h"
#include "intake/config_file.h"

namespace forestall::daemon {

struct DaemonOptions {
  bool verbose = false;  // log debug lines, too
  exports::LogFormat log_format = exports::LogFormat::logfmt;
  bool prints_records = false;  // as JSON lines on standard output
  std::string config_origin;    // where the configuration was read from, for people
  std::string api_socket;       // where gRPC is served, unless configured; empty: nowhere
  // Reads the configuration again, for SIGHUP.
  std::function<Result<intake::LoadedConfig>()> load_config;
};

// The loop takes SIGTERM, SIGINT and SIGHUP through a descriptor of its own, so they are blocked in
// every thread: call this before the first one is made. Ignores SIGPIPE.
void block_loop_signals();

// Runs until SIGTERM or SIGINT. The warnings of `loaded` are logged. Errors keep it from
// starting, or ended it; they are logged as well. REQUIRES: block_loop_signals().
[[nodiscard]] Result<void> run_daemon(const DaemonOptions& options,
                                      const intake::LoadedConfig& loaded, agent::ProbedHost& host);

}  // namespace forestall::daemon
