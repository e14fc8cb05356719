// SPDX-License-Identifier: Apache-2.0
// A line: the position of a threshold in terms that a wake source can watch. The policy computes
// lines from the last observation and sources arm themselves on them; the next observation decides.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"
#include "model/ids.h"
#include "model/signal.h"

namespace forestall {

struct Line {
  Signal signal = Signal::memory_available;
  CgroupId cgroup;   // inode 0: the node
  std::string path;  // of that cgroup in the memory hierarchy; "/" for the node
  // Growth of the working set until the threshold is met; negative if it is met.
  Bytes headroom;
  // Usage (usage_in_bytes, memory.current, or the node's file + anon) at which the threshold is met
  // if inactive_file stays unchanged: capacity - limit + inactive_file, kubelet's formula
  // (pkg/kubelet/eviction/memory_threshold_notifier.go UpdateThreshold).
  Bytes usage_line;
  // Usage at which it would be met without any inactive file page: capacity - limit. Between this
  // and usage_line a shrinking inactive_file can cross the line without a change of usage. For
  // memory.untilOom, which includes memory that no usage counter covers (the kernel's own memory,
  // swap): MemTotal + SwapTotal - limit, compared with the part of both that is outside
  // MemAvailable + SwapFree. Its usage_line is the node's current usage plus the headroom.
  Bytes floor_line;
  Bytes usage;  // at the time of the observation
  Bytes capacity;
  bool tune = false;  // the agent may set memory.high on this cgroup
  // Part of it is free swap, or that is not known: no counter in the kernel shows the amount.
  bool with_swap = false;
  // How far above the threshold userspace prepares for it (policy/warning.h); 0: not at all.
  Bytes margin = {};
  // A warning line: headroom at which the loop is woken before the threshold, to prepare; above 0
  // and below `headroom`. Nullopt: the threshold is next.
  std::optional<Bytes> warning = std::nullopt;

  // Growth of the working set until the next event; negative if the threshold is met.
  [[nodiscard]] constexpr Bytes distance() const { return headroom - warning.value_or(Bytes{0}); }

  friend bool operator==(const Line&, const Line&) = default;
};

}  // namespace forestall
