// SPDX-License-Identifier: Apache-2.0
// `forestall trace --summary`: what lasted how long in which cgroup, window by window, from sums
// that are made in the kernel: nothing of it can be lost on the way.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bpf/abi/trace.h"
#include "cli/trace_events.h"
#include "forestall/v1/event.pb.h"
#include "kernel/trace_programs.h"
#include "sources/cgroup_names.h"
#include "sources/pressure_poll.h"

namespace forestall::cli {

// Thread rule: one thread.
class TraceSummary {
 public:
  // `top`: of the cgroups of one window so many are told.
  TraceSummary(sources::CgroupNames& names, const TraceEvents& events, std::size_t top)
      : names_(names), events_(events), top_(top) {}

  // What was added to the sums since the last call, as the summary of that window.
  [[nodiscard]] v1::SummaryEvent since_last(const std::vector<kernel::TraceSum>& sums,
                                            const std::vector<sources::PressureReading>& readings,
                                            Duration window, MonotonicTime now);

 private:
  sources::CgroupNames& names_;
  const TraceEvents& events_;
  const std::size_t top_;
  std::map<std::pair<std::uint64_t, abi_trace_kind>, abi_trace_sum> before_;
};

// As text: the cgroups in a table, then one histogram for each kind, over all of them.
void append_summary(const v1::Event& event, bool color, std::string& out);

// A histogram of lengths as bpftrace prints one: a line for each power of two from the first that
// has any to the last.
void append_histogram(const std::vector<std::uint64_t>& buckets, std::string& out);

}  // namespace forestall::cli
