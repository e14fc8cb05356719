// SPDX-License-Identifier: Apache-2.0
#include "cluster/kill_tally.h"

#include <algorithm>

namespace forestall::cluster {
namespace {

// Of the times at which two answers of an agent arrive.
constexpr Duration kDelayMax = std::chrono::seconds(10);

}  // namespace

// A new agent may have the process ID of the old one: then its uptime has not grown by the time
// that passed.
bool KillTally::is_same_agent(const v1::AgentStatus& status, const KillCounts& total,
                              MonotonicTime now) const {
  const Duration grown(status.uptime_ns() - uptime_ns_);
  return added_at_ && pid_ == status.pid() && grown >= Duration::zero() &&
         grown >= now - *added_at_ - kDelayMax && total.evictions >= total_.evictions &&
         total.oom_kills >= total_.oom_kills;
}

void KillTally::add(const v1::AgentStatus& status, MonotonicTime now) {
  const KillCounts total{status.kills(), status.kernel_oom_kills()};
  const bool is_same = is_same_agent(status, total, now);
  const MonotonicTime since = is_same ? *added_at_ : now - Duration(status.uptime_ns());
  if (!is_same) total_ = {};
  const KillCounts added{total.evictions - total_.evictions, total.oom_kills - total_.oom_kills};
  added_at_ = now;
  pid_ = status.pid();
  uptime_ns_ = status.uptime_ns();
  total_ = total;
  std::erase_if(entries_, [&](const Entry& each) { return now - each.since >= kWindow; });
  if (added != KillCounts{} && now - since < kWindow) entries_.push_back({since, added});
}

KillCounts KillTally::in_window(MonotonicTime now) const {
  KillCounts sum;
  for (const Entry& each : entries_) {
    if (now - each.since >= kWindow) continue;
    sum.evictions += each.counts.evictions;
    sum.oom_kills += each.counts.oom_kills;
  }
  return sum;
}

}  // namespace forestall::cluster
