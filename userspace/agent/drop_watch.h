// SPDX-License-Identifier: Apache-2.0
// Copies the counts of what was lost to where other threads read them. The loop's thread reads the
// counters of the BPF programs, at most every ten seconds and only with an evaluation that happens
// anyway.
#pragma once

#include "exports/drop_counts.h"
#include "exports/sink.h"
#include "kernel/bpf_programs.h"
#include "kernel/guard.h"
#include "sources/oom_sightings.h"

namespace forestall::agent {

class DropWatch final : public exports::EvaluationListener {
 public:
  // Null: not in use. All outlive this. Reads the BPF counters once, which fixes their list.
  DropWatch(const kernel::BpfPrograms* bpf, const kernel::Guard* guard,
            const sources::OomSightings& oom_events, exports::DropCounts& counts);

  void looked(const exports::Look& look) override;

 private:
  void read_bpf();

  const kernel::BpfPrograms* bpf_;
  const kernel::Guard* guard_;
  const sources::OomSightings& oom_events_;
  exports::DropCounts& counts_;
  std::optional<MonotonicTime> read_at_;
};

}  // namespace forestall::agent
