// SPDX-License-Identifier: Apache-2.0
// An agent that only observes and records: what `forestall record` runs.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "model/config.h"
#include "recording/writer.h"

namespace forestall::daemon {

struct RecordingSession {
  recording::Target target;
  std::optional<Duration> duration = std::nullopt;  // nothing: until SIGINT or SIGTERM
  std::string config_origin;
  std::string cgroup_mount;
  bool verbose = false;
};

// Runs until then and returns the recording's totals. Errors: what kept it from beginning, or from
// a clean end; EEXIST where the file exists. REQUIRES: `config` is a dry run without guard and
// tripwires.
[[nodiscard]] Result<recording::WriterTotals> run_recording_session(const RecordingSession& session,
                                                                    const Config& config);

}  // namespace forestall::daemon
