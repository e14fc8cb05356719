// SPDX-License-Identifier: Apache-2.0
// Evictions and OOM kills of the last hour, from counters that begin at zero with each agent.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "forestall/v1/status.pb.h"

namespace forestall::cluster {

struct KillCounts {
  std::uint64_t evictions = 0;
  std::uint64_t oom_kills = 0;

  friend bool operator==(const KillCounts&, const KillCounts&) = default;
};

// A counter has no times: a kill happened between two statuses of an agent, or between its start
// and its first status. It counts for an hour from the begin of that time. So what is counted
// certainly happened in the last hour; more may have.
class KillTally {
 public:
  static constexpr Duration kWindow = std::chrono::hours(1);

  void add(const v1::AgentStatus& status, MonotonicTime now);
  [[nodiscard]] KillCounts in_window(MonotonicTime now) const;

 private:
  struct Entry {
    MonotonicTime since{};  // they happened then or later
    KillCounts counts;
  };

  [[nodiscard]] bool is_same_agent(const v1::AgentStatus& status, const KillCounts& total,
                                   MonotonicTime now) const;

  // Of the last status.
  std::optional<MonotonicTime> added_at_;
  std::int32_t pid_ = 0;
  std::int64_t uptime_ns_ = 0;
  KillCounts total_;
  std::vector<Entry> entries_;
};

}  // namespace forestall::cluster
