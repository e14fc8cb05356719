// SPDX-License-Identifier: Apache-2.0
// The shortest objects of the API server that answer requests.
#pragma once

namespace forestall::cluster {

// With a code of success it accepts the request, with another one it refuses it.
inline constexpr const char* kStatusAnswer = R"({"kind":"Status","status":"Success"})";

// To a GET of the Lease that the rebalancer has by default.
inline constexpr const char* kNoLease =
    R"({"kind":"Status","status":"Failure","reason":"NotFound","code":404,)"
    R"("details":{"name":"descheduler","group":"coordination.k8s.io","kind":"leases"}})";

}  // namespace forestall::cluster
