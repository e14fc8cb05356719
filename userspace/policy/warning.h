// SPDX-License-Identifier: Apache-2.0
// Warning lines: they wake the loop ahead of a threshold, so that slow work (reading all workloads,
// ranking, opening pidfds) is finished when the threshold is crossed.
//
// Each threshold has a margin above it, the warning zone. The first warning line is its upper edge;
// the next ones are at half of the margin, a quarter, and so on. At any fill rate, the prepared
// data is then at most as old as the time in which the last half of the headroom was used. Only the
// next line is armed. An idle node is therefore never woken, and one that hovers in the zone is
// woken once per halving.
#pragma once

#include <optional>

#include "base/bytes.h"

namespace forestall::policy {

// A sixteenth of the capacity, within 32 MiB and 1 GiB, but at most a quarter of the capacity. Page
// faults fill 2 GiB per second and CPU: for one CPU 32 MiB are 16 ms, the time to read some hundred
// workloads.
[[nodiscard]] Bytes warning_margin(Bytes capacity);

// The highest warning line below a headroom, as a headroom; nullopt if only the threshold is left,
// or it has no margin. A line nearer than an eighth of itself counts as reached: usage that hovers
// just above a line must neither be reported repeatedly, nor keep a polling source at its shortest
// interval.
[[nodiscard]] std::optional<Bytes> next_warning(Bytes headroom, Bytes margin);

// Whether a headroom has reached the first warning line, or the threshold.
[[nodiscard]] bool in_warning_zone(Bytes headroom, Bytes margin);
// Whether it has left the zone: by a quarter of the margin, so that the prepared state is not
// dropped and rebuilt while usage oscillates around the line.
[[nodiscard]] bool out_of_warning_zone(Bytes headroom, Bytes margin);

}  // namespace forestall::policy
