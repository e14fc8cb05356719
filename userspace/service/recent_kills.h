// SPDX-License-Identifier: Apache-2.0
// The last kills by the agent, for a client of WatchRecords that was away when they happened.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/clock.h"
#include "forestall/v1/record.pb.h"
#include "wire/grpc_service.h"

namespace forestall::service {

// Thread rule: one thread.
class RecentKills {
 public:
  static constexpr std::size_t kMax = 64;
  static constexpr std::size_t kBytesMax = std::size_t{1} << 20;
  static constexpr Duration kLongest = std::chrono::minutes(5);

  // Keeps the record if it is about a kill by the agent that is not a dry run, in place of an
  // earlier record of the same kill. Drops the oldest kills beyond the limits.
  void add(const v1::Record& record, MonotonicTime now);
  // As answers of WatchRecords: those not older than `longest`, oldest first.
  [[nodiscard]] std::deque<wire::GrpcFrame> since(Duration longest, MonotonicTime now) const;
  // Removes kills that are older than kLongest.
  void expire(MonotonicTime now);

 private:
  struct Kept {
    std::uint64_t sequence = 0;
    MonotonicTime at;
    wire::GrpcFrame frame;
  };
  std::deque<Kept> kills_;
  std::size_t bytes_ = 0;
};

}  // namespace forestall::service
