// SPDX-License-Identifier: Apache-2.0
#include "cluster/kill_tally.h"

namespace forestall::cluster {

void KillTally::add(const v1::AgentStatus& status, MonotonicTime now) {
  const bool is_same = has_agent_ && pid_ == status.pid() && uptime_ns_ <= status.uptime_ns();
  const bool began_before = !has_agent_ && Duration(status.uptime_ns()) > kWindow;
  const KillCounts total{status.kills(), status.kernel_oom_kills()};
  if (began_before) total_ = total;
  if (!is_same && !began_before) total_ = {};
  has_agent_ = true;
  pid_ = status.pid();
  uptime_ns_ = status.uptime_ns();
  const KillCounts added{total.evictions - total_.evictions, total.oom_kills - total_.oom_kills};
  total_ = total;
  while (!entries_.empty() && now - entries_.front().at >= kWindow) entries_.pop_front();
  if (added != KillCounts{}) entries_.push_back({now, added});
}

KillCounts KillTally::in_window(MonotonicTime now) const {
  KillCounts sum;
  for (const Entry& each : entries_) {
    if (now - each.at >= kWindow) continue;
    sum.evictions += each.counts.evictions;
    sum.oom_kills += each.counts.oom_kills;
  }
  return sum;
}

}  // namespace forestall::cluster
