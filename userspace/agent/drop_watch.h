// SPDX-License-Identifier: Apache-2.0
// Brings the counts of what was lost to where others may read them. Those of the BPF programs are
// read by the loop's thread, as all of BPF is, with a look that happens anyway and seldom.
#pragma once

#include "agent/oom_tellers.h"
#include "exports/drop_counts.h"
#include "exports/sink.h"
#include "kernel/bpf_programs.h"

namespace forestall::agent {

class DropWatch final : public exports::RecordSink {
 public:
  // Null: nothing of the kind. All outlive this.
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
