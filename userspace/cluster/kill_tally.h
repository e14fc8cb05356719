// SPDX-License-Identifier: Apache-2.0
// Evictions and OOM kills of the last hour, from counters that begin at zero with each agent.
#pragma once

#include <cstdint>
#include <deque>

#include "base/clock.h"
#include "forestall/v1/status.pb.h"

namespace forestall::cluster {

struct KillCounts {
  std::uint64_t evictions = 0;
  std::uint64_t oom_kills = 0;

  friend bool operator==(const KillCounts&, const KillCounts&) = default;
};

// Counts at least what happened while this process ran, and since the agent's start if that is
// less than an hour before the first status.
class KillTally {
 public:
  static constexpr Duration kWindow = std::chrono::hours(1);

  void add(const v1::AgentStatus& status, MonotonicTime now);
  [[nodiscard]] KillCounts in_window(MonotonicTime now) const;

 private:
  struct Entry {
    MonotonicTime at{};
    KillCounts counts;
  };

  bool has_agent_ = false;
  std::int32_t pid_ = 0;
  std::int64_t uptime_ns_ = 0;
  KillCounts total_;  // of the agent, as last reported
  std::deque<Entry> entries_;
};

}  // namespace forestall::cluster
