// SPDX-License-Identifier: Apache-2.0
// Converts trace events of BPF and of the kernel's files to messages.
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

namespace forestall::trace {

// Converts CLOCK_MONOTONIC to CLOCK_REALTIME with the current offset.
class WallClock {
 public:
  WallClock() { adjust(); }
  // Reads the offset again: the wall clock may be set during a trace.
  void adjust();
  void stamp(std::int64_t at_ns, v1::Event& event) const;

 private:
  std::int64_t offset_ns_ = 0;
};

// Thread rule: one thread. Reuses one event, whose fields keep their memory.
class TraceEvents {
 public:
  // `mglru`: the multi-generational LRU is enabled. The kernel then counts pages as scanned when it
  // takes them off its lists (mm/vmscan.c scan_folios).
  TraceEvents(sources::CgroupNames& names, bool mglru) : names_(names), mglru_(mglru) {}

  // Null: the record has no event, for example the path of a cgroup. Valid until the next call.
  [[nodiscard]] const v1::Event* of(const abi_trace_event& record, MonotonicTime now);
  [[nodiscard]] const v1::Event& of(const OomKillEvent& kill);
  // Sets cgroup, pod and time.
  void place(CgroupId cgroup, std::int64_t at_ns, MonotonicTime now, v1::Event& event);
  // Sets time and pod of an event that has its cgroup.
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

// UID of the pod that contains a cgroup; empty: none.
[[nodiscard]] std::string pod_of(std::string_view path);

// Detects when the usage of a cgroup crosses a usage line.
class UsageLines {
 public:
  using Visit = std::function<void(const v1::UsageEvent&)>;
  // Percent of the limit. Downwards, usage must fall kSlack below.
  static constexpr std::array kLines{50, 75, 90, 95, 99};
  static constexpr int kSlack = 2;

  // Visits every line crossed since the last reading of this cgroup, in order. The first reading
  // crosses no line.
  void read(const sources::PressureReading& reading, const Visit& visit);
  // Drops the state of all cgroups that are not in `readings`.
  void keep(const std::vector<sources::PressureReading>& readings);

 private:
  std::map<std::uint64_t, std::size_t> above_;  // number of lines each is above
};

// Nothing: all values are zero.
[[nodiscard]] std::optional<v1::PressureEvent> pressure_of(const sources::PressureReading& reading);
[[nodiscard]] std::optional<v1::ReclaimCountEvent> reclaim_count_of(
    const sources::PressureReading& reading);

// Whether /sys/kernel/mm/lru_gen/enabled enables the multi-generational LRU.
[[nodiscard]] bool multi_generational_lru();

}  // namespace forestall::trace
