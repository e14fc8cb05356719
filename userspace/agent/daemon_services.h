// SPDX-License-Identifier: Apache-2.0
// What the running agent serves and records beside its loop. A service that cannot start is logged
// as an error and does not keep the agent from running.
#pragma once

#include <string>

#include "agent/daemon_parts.h"

namespace forestall::agent {

// For `forestall status`, on the local socket at `path`.
void serve_status(DaemonParts& parts, const std::string& path, exports::Log& log);
// gRPC, on the local socket at `path`; an empty one: none is wanted.
void serve_api(DaemonParts& parts, const Host& host, const std::string& path, const Config& config,
               exports::Log& log);
// Begins the agent's own recording, if the configuration has one.
void record_on_disk(DaemonParts& parts, const Host& host, const Config& config, exports::Log& log);
// Ends a recording if there is one, and logs its totals.
void end_recording(Recorder& recorder, exports::Log& log);

}  // namespace forestall::agent
