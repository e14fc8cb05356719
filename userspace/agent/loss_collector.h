// SPDX-License-Identifier: Apache-2.0
// Copies the counts of what was lost to where other threads read them. The loop's thread reads the
// counters of the BPF programs, at most every ten seconds and only with an evaluation that happens
// anyway.
#pragma once

#include "exports/drop_counts.h"
#include "exports/sink.h"
#include "kernel/bpf_programs.h"
#include "kernel/guard.h"
#include "sources/observer.h"
#include "sources/oom_event_correlator.h"

namespace forestall::agent {

class LossCollector final : public exports::EvaluationListener {
 public:
  // Null: not in use. All outlive this. Reads the BPF counters once, which fixes their list.
  LossCollector(const kernel::BpfPrograms* bpf, const kernel::GuardPrograms* guard,
                const sources::OomEventCorrelator& oom_events, const sources::Observer& observer,
                exports::DropCounts& counts);

  void evaluated(const exports::Evaluation& evaluation) override;

 private:
  void read_bpf();

  const kernel::BpfPrograms* bpf_;
  const kernel::GuardPrograms* guard_;
  const sources::OomEventCorrelator& oom_events_;
  const sources::Observer& observer_;
  exports::DropCounts& counts_;
  std::optional<MonotonicTime> read_at_;
};

}  // namespace forestall::agent
