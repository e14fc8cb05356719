// SPDX-License-Identifier: Apache-2.0
// When a threshold was crossed, as far as it was seen. No reading is continuous, so a crossing has
// bounds; a time at which the agent happened to run is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/ids.h"

namespace forestall {

// What observed that a threshold was crossed.
enum class CrossingOrigin : std::uint8_t {
  reading,  // two readings by the agent, or by a source in userspace
  kernel,   // a reading of usage by a program in the kernel, before it
  charge,   // the charge itself
};

[[nodiscard]] std::string_view to_string(CrossingOrigin seen);

// When a threshold was crossed: not before `above` was read, and before `below` was.
struct CrossingBounds {
  struct Reading {
    MonotonicTime at;
    // In the signal's unit; nullopt: the kernel's reading, which is usage.
    std::optional<std::int64_t> available = std::nullopt;

    friend bool operator==(const Reading&, const Reading&) = default;
  };
  std::optional<Reading> above;  // the last that did not reach it; nullopt: there was none before
  Reading below;                 // the first that reached it
  CrossingOrigin seen = CrossingOrigin::reading;

  friend bool operator==(const CrossingBounds&, const CrossingBounds&) = default;
};

// Two readings of a source, at an event. Whether a threshold was met at them depends on where its
// line was then (agent/crossing_tracker.h).
struct SourceReadings {
  enum class Measured : std::uint8_t {
    usage,        // of the subject
    working_set,  // its usage without inactive file pages
    not_left,     // memory and swap outside of MemAvailable and SwapFree
  };
  struct Reading {
    MonotonicTime at;
    Bytes amount;

    friend bool operator==(const Reading&, const Reading&) = default;
  };
  CgroupId cgroup;  // inode 0: the node
  Measured measured = Measured::usage;
  CrossingOrigin by = CrossingOrigin::reading;
  Reading before;  // it was at most this when the reading began
  // It was at least this when the reading had ended; nullopt: only that it was met is known.
  std::optional<Reading> after = std::nullopt;

  friend bool operator==(const SourceReadings&, const SourceReadings&) = default;
};

}  // namespace forestall
