// SPDX-License-Identifier: Apache-2.0
// `forestall trace --summary`: lengths of events by cgroup and window, from sums that the kernel
// collects. No event is lost.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bpf/abi/trace.h"
#include "forestall/v1/event.pb.h"
#include "kernel/trace_programs.h"
#include "sources/cgroup_names.h"
#include "sources/pressure_poll.h"
#include "trace/trace_events.h"

namespace forestall::trace {

// Thread rule: one thread.
class TraceSummary {
 public:
  // `top`: cgroups shown per window.
  TraceSummary(sources::CgroupNames& names, const TraceEvents& events, std::size_t top)
      : names_(names), events_(events), top_(top) {}

  // The change of the sums since the last call, as the summary of that window.
  [[nodiscard]] v1::SummaryEvent since_last(const std::vector<kernel::TraceSum>& sums,
                                            const std::vector<sources::PressureReading>& readings,
                                            Duration window, MonotonicTime now);

 private:
  sources::CgroupNames& names_;
  const TraceEvents& events_;
  const std::size_t top_;
  std::map<std::pair<std::uint64_t, abi_trace_kind>, abi_trace_sum> before_;
};

// As text: a table of cgroups, then one histogram per kind over all of them.
void append_summary(const v1::Event& event, bool color, std::string& out);

// A histogram in bpftrace's form: a line per power of two, from the first to the last that is not
// zero.
void append_histogram(const std::vector<std::uint64_t>& buckets, std::string& out);

}  // namespace forestall::trace
