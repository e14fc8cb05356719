// SPDX-License-Identifier: Apache-2.0
// Events of a trace as messages, from what BPF and the kernel's files tell.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "bpf/abi/trace.h"
#include "forestall/v1/event.pb.h"
#include "kernel/trace_programs.h"
#include "model/oom_kill.h"
#include "sources/cgroup_names.h"
#include "sources/pressure_poll.h"

namespace forestall::cli {

// CLOCK_REALTIME at a CLOCK_MONOTONIC time, with both as they are related now.
class WallClock {
 public:
  WallClock() { adjust(); }
  // The wall clock may be set while a trace runs.
  void adjust();
  void stamp(std::int64_t at_ns, v1::Event& event) const;

 private:
  std::int64_t offset_ns_ = 0;
};

// Thread rule: one thread. Fills one event again and again, whose parts keep their memory.
class TraceEvents {
 public:
  // `mglru`: the multi-generational LRU is on, where the kernel counts as scanned what it takes off
  // its lists (mm/vmscan.c scan_folios), not what it looks at.
  TraceEvents(sources::CgroupNames& names, bool mglru) : names_(names), mglru_(mglru) {}

  // Null: there is nothing to show. Notes names of cgroups on the way. The event lives until the
  // next call.
  [[nodiscard]] const v1::Event* of(const abi_trace_event& record, MonotonicTime now);
  [[nodiscard]] const v1::Event& of(const OomKillSighting& kill);
  // Fills in cgroup, pod and time.
  void place(CgroupId cgroup, std::int64_t at_ns, MonotonicTime now, v1::Event& event);
  // Time and pod for an event that has its cgroup already.
  void stamp(v1::Event& event) const;

  [[nodiscard]] std::uint64_t scanned(std::uint64_t scanned, std::uint64_t taken) const {
    return mglru_ ? taken : scanned;
  }
  void adjust_clock() { clock_.adjust(); }

 private:
  void fill_span(const abi_trace_event& record, MonotonicTime now);
  void fill_kill(const abi_trace_oom_kill& record);

  sources::CgroupNames& names_;
  const bool mglru_;
  WallClock clock_;
  v1::Event event_;
};

// The UID of the pod that a cgroup lies in; empty: none.
[[nodiscard]] std::string pod_of(std::string_view path);

// Remembers how full each cgroup was, to tell when it crosses a line.
class UsageLines {
 public:
  using Visit = std::function<void(const v1::UsageEvent&)>;
  // Percent of the limit; downwards it has to fall kSlack below.
  static constexpr std::array kLines{50, 75, 90, 95, 99};
  static constexpr int kSlack = 2;

  // Every line crossed since the last reading of this cgroup, in the order of crossing. The first
  // reading crosses nothing.
  void read(const sources::PressureReading& reading, const Visit& visit);
  // Forgets those that are not among these, which are all there are.
  void keep(const std::vector<sources::PressureReading>& readings);

 private:
  std::map<std::uint64_t, std::size_t> above_;  // how many lines each is above
};

// From a reading: what is zero is not told.
[[nodiscard]] std::optional<v1::PressureEvent> pressure_of(const sources::PressureReading& reading);
[[nodiscard]] std::optional<v1::ReclaimCountEvent> reclaim_count_of(
    const sources::PressureReading& reading);

// Whether /sys/kernel/mm/lru_gen/enabled says that the multi-generational LRU is on.
[[nodiscard]] bool multi_generational_lru();

}  // namespace forestall::cli
