// SPDX-License-Identifier: Apache-2.0
// The running agent: builds its parts, arms the sources, serves its API and runs the loop. Every
// refusal comes before the first line is armed, so that an agent that reports READY does its job.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/host.h"
#include "base/result.h"
#include "model/config.h"

namespace forestall::agent {

struct DaemonOptions {
  bool verbose = false;         // log debug lines, too
  bool prints_records = false;  // as JSON lines on standard output
  std::string config_origin;    // where the configuration was read from, for people
  std::string status_socket;    // where `forestall status` is answered without gRPC
  std::string api_socket;  // where gRPC is served, unless the configuration says; empty: nowhere
  // Reads the configuration again, for SIGHUP; appends warnings about it.
  std::function<Result<Config>(std::vector<std::string>& warnings)> load_config;
};

// The loop takes SIGTERM, SIGINT and SIGHUP through a descriptor of its own, so they are blocked in
// every thread: call this before the first one is made. Ignores SIGPIPE.
void block_loop_signals();

// Runs until SIGTERM or SIGINT. `warnings` of reading `config` are logged. Errors keep it from
// starting, or ended it; they are logged as well. REQUIRES: block_loop_signals().
[[nodiscard]] Result<void> run_daemon(const DaemonOptions& options, const Config& config,
                                      const std::vector<std::string>& warnings, Host& host);

}  // namespace forestall::agent
