// SPDX-License-Identifier: Apache-2.0
// The shortest object of the API server that answers a request.
#pragma once

namespace forestall::cluster {

// With a code of success it accepts the request, with another one it refuses it.
inline constexpr const char* kStatusAnswer = R"({"kind":"Status","status":"Success"})";

}  // namespace forestall::cluster
