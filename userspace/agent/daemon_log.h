// SPDX-License-Identifier: Apache-2.0
// What the agent logs at its start, on its own account or for a recording.
#pragma once

#include <string>
#include <vector>

#include "agent/host.h"
#include "exports/log.h"
#include "model/config.h"

namespace forestall::agent {

[[nodiscard]] inline exports::LogLevel log_level(bool verbose) {
  return verbose ? exports::LogLevel::debug : exports::LogLevel::info;
}

inline void log_config_warnings(exports::Log& log, const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    log.write(exports::LogLevel::warning, exports::LogLine("config").field("warning", warning));
  }
}

inline void log_start(exports::Log& log, const Host& host, const Config& config,
                      const std::string& origin) {
  exports::LogLine line("start");
  line.field("version", FORESTALL_VERSION)
      .field("kernel", host.kernel_release)
      .field("tier", to_string(host.tier()))
      .field("config", origin)
      .field("dry_run", config.dry_run)
      .field("thresholds", config.thresholds.size());
  for (const FeatureReport& report : host.reports) {
    line.field(to_string(report.feature), to_string(report.state));
  }
  log.write(exports::LogLevel::info, line);
}

}  // namespace forestall::agent
