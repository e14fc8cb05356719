// SPDX-License-Identifier: Apache-2.0
// The status of the running agent, over gRPC.
#pragma once

#include <string>

#include "base/result.h"
#include "forestall/v1/status.pb.h"

namespace forestall::cli {

// Errors state what to do if no agent listens at `socket`.
[[nodiscard]] Result<v1::AgentStatus> agent_status(const std::string& socket);

}  // namespace forestall::cli
