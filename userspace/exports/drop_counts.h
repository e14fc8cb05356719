// SPDX-License-Identifier: Apache-2.0
// Losses of the agent: log lines, events and work of the BPF programs, OOM events that came too
// late, and messages that a client did not get.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "exports/bpf_counts.h"
#include "exports/log.h"

namespace forestall::exports {

// Written by the loop's thread (`untold`: by the gRPC server's), read by any.
struct DropCounts {
  std::vector<const Log*> logs;  // count by themselves, outlive this; fixed before others read it
  BpfCounts bpf;
  std::atomic<std::uint64_t> bpf_read_errors{0};  // reads of the BPF counters that failed
  std::atomic<std::uint64_t> late_tellings{0};    // halves of kills told already
  std::atomic<std::uint64_t> untold{0};           // records and events, to those who watch
  std::atomic<std::uint64_t> live_viewers{0};     // of the status page, who did not read
  // Entries of recordings: the queue had no room. As of the last look.
  std::atomic<std::uint64_t> recording_entries{0};

  [[nodiscard]] std::uint64_t log_lines() const {
    std::uint64_t lines = 0;
    for (const Log* log : logs) lines += log->dropped();
    return lines;
  }
};

}  // namespace forestall::exports
