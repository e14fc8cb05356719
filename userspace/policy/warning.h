// SPDX-License-Identifier: Apache-2.0
// Warning lines: where the loop is woken ahead of a threshold, so that what takes time (reading all
// workloads, ranking, opening pidfds) is done when the threshold is crossed.
//
// Each threshold has a margin above it, the warning zone. The first warning line is its upper edge,
// the next ones lie at half of the margin, a quarter, and so on: a fill at whatever speed is met by
// news that are older by no more than the time it took to come half of the way. Only the next one
// is armed, so that a node at rest is woken by nothing, and one that hovers in the zone once for
// each halving.
#pragma once

#include <optional>

#include "base/bytes.h"

namespace forestall::policy {

// A sixteenth of the capacity, within 32 MiB and 1 GiB, but no more than a quarter of the capacity.
// Page faults fill 2 GiB a second and CPU: 32 MiB are 16 ms of one, what reading some hundred
// workloads takes.
[[nodiscard]] Bytes warning_margin(Bytes capacity);

// The highest warning line below a headroom, as a headroom; nothing when only the threshold is
// left, or has no margin. One that is nearer than an eighth of itself counts as reached: hovering
// just above a line must neither be told of over and over, nor keep a polling source at its
// shortest interval.
[[nodiscard]] std::optional<Bytes> next_warning(Bytes headroom, Bytes margin);

// Whether a headroom has reached the first warning line, or the threshold.
[[nodiscard]] bool in_warning_zone(Bytes headroom, Bytes margin);
// Whether it is out of the zone again: a quarter of the margin beyond it, so that what was made
// ready is not given up and made again while usage plays about the line.
[[nodiscard]] bool out_of_warning_zone(Bytes headroom, Bytes margin);

}  // namespace forestall::policy
