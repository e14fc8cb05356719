// SPDX-License-Identifier: Apache-2.0
// What the agent logs at its start and end, on its own account or for a recording.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "agent/host.h"
#include "exports/log.h"
#include "exports/loop_work.h"
#include "model/config.h"

namespace forestall::daemon {

[[nodiscard]] inline exports::LogLevel log_level(bool verbose) {
  return verbose ? exports::LogLevel::debug : exports::LogLevel::info;
}

inline void log_config_warnings(exports::Log& log, const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    log.write(exports::LogLevel::warning, exports::LogLine("config").field("warning", warning));
  }
}

// "started version 0.1.0 on Linux 6.1.0: tier full, 5 thresholds, configuration built in; dry run".
inline std::string start_sentence(const agent::ProbedHost& host, const Config& config,
                                  const std::string& origin) {
  return fmt::format("started version {} on Linux {}: tier {}, {} threshold{}, configuration {}{}",
                     FORESTALL_VERSION, host.kernel_release, to_string(host.tier()),
                     config.thresholds.size(), config.thresholds.size() == 1 ? "" : "s",
                     exports::logfmt_escaped(origin),
                     config.dry_run ? "; dry run: it sends no signal" : "");
}

inline void log_start(exports::Log& log, const agent::ProbedHost& host, const Config& config,
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
  line.sentence(start_sentence(host, config, origin));
  log.write(exports::LogLevel::info, line);
}

// How long the loop's thread has worked on what, in all and within its longest stretch.
inline void log_loop_work(exports::Log& log, const exports::LoopWorkTally& tally) {
  exports::LogLine line("loop");
  line.field("stretches", tally.stretches()).field("longest_us", tally.longest());
  for (std::size_t i = 0; i < exports::kLoopWorkCount; ++i) {
    const auto work = static_cast<exports::LoopWork>(i);
    const exports::LoopWorkTally::Summary summary = tally.summary(work);
    if (summary.total == Duration::zero()) continue;
    const std::string name(to_string(work));
    line.field(name + "_us", summary.total).field(name + "_in_longest_us", summary.in_longest);
  }
  log.write(exports::LogLevel::info, line);
}

}  // namespace forestall::daemon
