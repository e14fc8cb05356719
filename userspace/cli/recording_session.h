// SPDX-License-Identifier: Apache-2.0
// An agent that only looks on, and keeps what it sees: what `forestall record` runs.
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

// Runs until then: what it came to. Errors: what kept it from beginning, or from a clean end;
// EEXIST where the file is there. REQUIRES: `config` is a dry run without guard and tripwires.
[[nodiscard]] Result<recording::Totals> run_recording_session(const RecordingSession& session,
                                                              const Config& config,
                                                              const Options& options);

}  // namespace forestall::cli
