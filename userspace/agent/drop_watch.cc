// SPDX-License-Identifier: Apache-2.0
#include "agent/drop_watch.h"

#include "kernel/bpf_counters.h"

namespace forestall::agent {
namespace {

constexpr Duration kInterval = std::chrono::seconds(10);

}  // namespace

DropWatch::DropWatch(const kernel::BpfPrograms* bpf, const kernel::Guard* guard,
                     const sources::OomSightings& oom_events, exports::DropCounts& counts)
    : bpf_(bpf), guard_(guard), oom_events_(oom_events), counts_(counts) {
  read_bpf();
}

void DropWatch::looked(const exports::Look& look) {
  // Not while a kill is due: the read takes system calls.
  if (look.decision.action != Action::none) return;
  const MonotonicTime now = look.observation.at;
  if (read_at_ && now - *read_at_ < kInterval) return;
  read_at_ = now;
  counts_.late_tellings = oom_events_.late();
  read_bpf();
}

void DropWatch::read_bpf() {
  const auto counters = kernel::bpf_counters(bpf_, guard_);
  if (counters) {
    counts_.bpf.set(*counters);
  } else {
    ++counts_.bpf_read_errors;
  }
}

}  // namespace forestall::agent
