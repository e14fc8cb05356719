// SPDX-License-Identifier: Apache-2.0
// What the gRPC server did, and with whom it would have nothing to do.
#pragma once

#include <atomic>
#include <cstdint>

namespace forestall::exports {

// Written by the server's thread, read by any.
struct GrpcCounts {
  std::atomic<std::uint64_t> connections{0};   // taken
  std::atomic<std::uint64_t> refused{0};       // of somebody who may not, or not so many
  std::atomic<std::uint64_t> calls{0};         // begun
  std::atomic<std::uint64_t> slow_readers{0};  // dropped because they took nothing for too long
};

}  // namespace forestall::exports
