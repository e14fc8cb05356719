// SPDX-License-Identifier: Apache-2.0
// Counters of the gRPC server.
#pragma once

#include <atomic>
#include <cstdint>

namespace forestall::wire {

// Written by the server's thread, read by any thread.
struct GrpcCounts {
  std::atomic<std::uint64_t> connections{0};   // accepted
  std::atomic<std::uint64_t> refused{0};       // not permitted, or too many
  std::atomic<std::uint64_t> calls{0};         // started
  std::atomic<std::uint64_t> slow_readers{0};  // ended because the client was too slow
};

}  // namespace forestall::wire
