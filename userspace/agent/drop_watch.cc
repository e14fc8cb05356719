// SPDX-License-Identifier: Apache-2.0
#include "agent/drop_watch.h"

#include <algorithm>
#include <numeric>

namespace forestall::agent {
namespace {

constexpr Duration kInterval = std::chrono::seconds(10);

}  // namespace

void DropWatch::looked(const exports::Look& look) {
  // Not on the way to a kill: it takes a system call.
  if (look.decision.action != Action::none) return;
  const MonotonicTime now = look.observation.at;
  if (read_at_ && now - *read_at_ < kInterval) return;
  read_at_ = now;
  counts_.late_tellings = oom_events_.late();
  if (bpf_ == nullptr) return;
  const auto counters = bpf_->counters();
  if (!counters) return;
  const auto sum = [](const auto& all) {
    return std::accumulate(std::begin(all), std::end(all), std::uint64_t{0});
  };
  counts_.bpf_events = sum(counters->dropped);
  counts_.bpf_failures = sum(counters->failures);
}

}  // namespace forestall::agent
