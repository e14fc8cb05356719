// SPDX-License-Identifier: Apache-2.0
// What the running agent serves and records beside its loop. A service that cannot start is logged
// as an error and does not keep the agent from running.
#pragma once

#include <string>

#include "daemon/daemon_parts.h"

namespace forestall::daemon {

// gRPC, on the local socket at `path`; an empty one: none is wanted.
void serve_api(DaemonParts& parts, const agent::ProbedHost& host, const std::string& path,
               const Config& config, exports::Log& log);
// Begins the agent's own recording, if the configuration has one.
void record_on_disk(DaemonParts& parts, const agent::ProbedHost& host, const Config& config,
                    exports::Log& log);
// Ends a recording if there is one, and logs its totals.
void end_recording(agent::Recorder& recorder, exports::Log& log);

}  // namespace forestall::daemon
