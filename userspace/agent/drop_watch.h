// SPDX-License-Identifier: Apache-2.0
// Copies the counts of lost events to where other threads may read them. The loop's thread reads
// those of the BPF programs, as it reads all BPF maps: with an evaluation, and at most every 10 s.
#pragma once

#include "exports/drop_counts.h"
#include "exports/sink.h"
#include "kernel/bpf_programs.h"
#include "sources/oom_sightings.h"

namespace forestall::agent {

class DropWatch final : public exports::EvaluationListener {
 public:
  // `bpf` may be null. All outlive this.
  DropWatch(const kernel::BpfPrograms* bpf, const sources::OomSightings& oom_events,
            exports::DropCounts& counts)
      : bpf_(bpf), oom_events_(oom_events), counts_(counts) {}

  void looked(const exports::Look& look) override;

 private:
  const kernel::BpfPrograms* bpf_;
  const sources::OomSightings& oom_events_;
  exports::DropCounts& counts_;
  std::optional<MonotonicTime> read_at_;
};

}  // namespace forestall::agent
