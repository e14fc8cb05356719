// SPDX-License-Identifier: Apache-2.0
// Whether another process of the same DaemonSet will follow this one on its node.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kubernetes/http_client.h"

namespace forestall::cluster {

// "NAMESPACE/NAME". Errors: it has another form.
[[nodiscard]] Result<void> check_daemon_set_name(std::string_view name);

// For the namespace, then the DaemonSet: either may be deleted first.
[[nodiscard]] std::array<kubernetes::OutgoingRequest, 2> successor_requests(std::string_view name);

// Why no process will follow, or may not; empty: the object remains, and a DaemonSet has a pod on
// each node. `body` is the answer to a request.
[[nodiscard]] std::string why_no_successor(int code, std::string_view body);

}  // namespace forestall::cluster
