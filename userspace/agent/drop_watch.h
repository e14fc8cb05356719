// SPDX-License-Identifier: Apache-2.0
// Copies the counts of what was lost to where other threads read them. The loop's thread reads the
// counters of the BPF programs, at most every ten seconds and only with an evaluation that happens
// anyway.
#pragma once

#include "agent/oom_tellers.h"
#include "exports/drop_counts.h"
#include "exports/sink.h"
#include "kernel/bpf_programs.h"
#include "kernel/guard.h"

namespace forestall::agent {

class DropWatch final : public exports::RecordSink {
 public:
  // Null: not in use. All outlive this. Reads the BPF counters once, which fixes their list.
  DropWatch(const kernel::BpfPrograms* bpf, const kernel::Guard* guard, const OomTellers* tellers,
            exports::DropCounts& counts);

  void write(const Record&) override {}
  void looked(const exports::Look& look) override;

 private:
  void read_bpf();

  const kernel::BpfPrograms* bpf_;
  const kernel::Guard* guard_;
  const OomTellers* tellers_;
  exports::DropCounts& counts_;
  std::optional<MonotonicTime> read_at_;
};

}  // namespace forestall::agent
