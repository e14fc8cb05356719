// SPDX-License-Identifier: Apache-2.0
// Counts of what the agent lost: log lines, BPF events and failed BPF operations, late OOM events,
// workloads that could not be opened, and messages that gRPC clients missed.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "exports/bpf_counts.h"
#include "exports/log.h"

namespace forestall::exports {

// Written by the loop's thread (`dropped`: the gRPC server's); read by any thread.
struct DropCounts {
  std::vector<const Log*> logs;  // count themselves; outlive this; fixed before other threads read
  BpfCounts bpf;
  std::atomic<std::uint64_t> bpf_read_errors{0};  // failed reads of the BPF counters
  std::atomic<std::uint64_t> late_oom_events{0};  // OOM events received after the kill was recorded
  // Failed opens of known workloads, which keep their last values
  std::atomic<std::uint64_t> unread_workloads{0};
  std::atomic<std::uint64_t> dropped{0};       // records and events that gRPC watch clients missed
  std::atomic<std::uint64_t> live_viewers{0};  // status-page clients that were too slow
  // Recording entries without space in the queue, as of the last evaluation.
  std::atomic<std::uint64_t> recording_entries{0};

  [[nodiscard]] std::uint64_t log_lines() const {
    std::uint64_t lines = 0;
    for (const Log* log : logs) lines += log->dropped();
    return lines;
  }
};

}  // namespace forestall::exports
