// SPDX-License-Identifier: Apache-2.0
#include "agent/loss_collector.h"

#include "kernel/bpf_counters.h"

namespace forestall::agent {
namespace {

constexpr Duration kInterval = std::chrono::seconds(10);

}  // namespace

LossCollector::LossCollector(const kernel::BpfPrograms* bpf, const kernel::GuardPrograms* guard,
                             const sources::OomEventCorrelator& oom_events,
                             const sources::Observer& observer, exports::DropCounts& counts)
    : bpf_(bpf), guard_(guard), oom_events_(oom_events), observer_(observer), counts_(counts) {
  read_bpf();
}

void LossCollector::evaluated(const exports::Evaluation& evaluation) {
  // Not while a kill is due: the read takes system calls.
  if (evaluation.decision.action != Action::none) return;
  const MonotonicTime now = evaluation.observation.at;
  if (read_at_ && now - *read_at_ < kInterval) return;
  read_at_ = now;
  counts_.late_oom_events = oom_events_.late();
  counts_.unread_workloads = observer_.unread_workloads();
  read_bpf();
}

void LossCollector::read_bpf() {
  const auto counters = kernel::bpf_counters(bpf_, guard_);
  if (counters) {
    counts_.bpf.set(*counters);
  } else {
    ++counts_.bpf_read_errors;
  }
}

}  // namespace forestall::agent
