// SPDX-License-Identifier: Apache-2.0
// An agent that only records: what `forestall record` runs.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "cli/options.h"
#include "model/config.h"
#include "recording/writer.h"

namespace forestall::cli {

struct RecordingSession {
  recording::Target target;
  std::optional<Duration> duration = std::nullopt;  // nothing: until SIGINT or SIGTERM
  std::string config_origin;
};

// Records until `duration` ends and returns the totals. Errors: it could not start or end properly;
// EEXIST if the file exists. REQUIRES: `config` is a dry run without guard and tripwires.
[[nodiscard]] Result<recording::Totals> run_recording_session(const RecordingSession& session,
                                                              const Config& config,
                                                              const Options& options);

}  // namespace forestall::cli
