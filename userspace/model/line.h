// SPDX-License-Identifier: Apache-2.0
// A line: where a threshold lies in terms a wake source can watch. Policy computes lines from the
// last observation, sources arm themselves on them; the next observation decides.
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
  // Working set may still grow by this much until the threshold is met; negative when it is met.
  Bytes headroom;
  // Usage (usage_in_bytes, memory.current, or the node's file + anon) at which the threshold is
  // met if inactive_file stays as it was: capacity - limit + inactive_file, kubelet's formula
  // (pkg/kubelet/eviction/memory_threshold_notifier.go UpdateThreshold).
  Bytes usage_line;
  // Usage at which it would be met if no file page were inactive any more: capacity - limit.
  // Between this and usage_line a shrinking inactive_file can cross unseen by a usage counter.
  // Of memory.untilOom, which counts what no usage counter shows (the kernel's own memory, swap):
  // MemTotal + SwapTotal - limit, to be held against what MemAvailable + SwapFree leave of the two;
  // its usage_line is the node's usage of now plus the headroom.
  Bytes floor_line;
  Bytes usage;  // at the time of the observation
  Bytes capacity;
  bool tune = false;  // the agent may set memory.high on this cgroup
  // How far above the threshold userspace makes ready for it (policy/warning.h); 0: not at all.
  Bytes margin = {};
  // A warning line: headroom at which the loop wants to be woken ahead of the threshold, to make
  // ready; above 0 and below `headroom`. Nothing: the threshold is what comes next.
  std::optional<Bytes> warning = std::nullopt;

  // Working set may still grow by this much until there is something to tell; negative when the
  // threshold is met.
  [[nodiscard]] constexpr Bytes distance() const { return headroom - warning.value_or(Bytes{0}); }

  friend bool operator==(const Line&, const Line&) = default;
};

}  // namespace forestall
