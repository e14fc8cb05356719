// SPDX-License-Identifier: Apache-2.0
// Copies the counts of lost events to where other threads may read them. The loop's thread reads
// those of the BPF programs, as it reads all BPF maps: with an evaluation, and at most every 10 s.
#pragma once

#include "agent/oom_tellers.h"
#include "exports/drop_counts.h"
#include "exports/sink.h"
#include "kernel/bpf_programs.h"

namespace forestall::agent {

class DropWatch final : public exports::RecordSink {
 public:
  // Null: there is no such part. All outlive this.
  DropWatch(const kernel::BpfPrograms* bpf, const OomTellers* tellers, exports::DropCounts& counts)
      : bpf_(bpf), tellers_(tellers), counts_(counts) {}

  void write(const Record&) override {}
  void looked(const exports::Look& look) override;

 private:
  const kernel::BpfPrograms* bpf_;
  const OomTellers* tellers_;
  exports::DropCounts& counts_;
  std::optional<MonotonicTime> read_at_;
};

}  // namespace forestall::agent
