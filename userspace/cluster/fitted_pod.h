// SPDX-License-Identifier: Apache-2.0
// The facts of a pod within bounds. A tenant chooses how many containers, volumes and tolerations
// its pod has. If the facts were not passed on, the priority of the pod would be unknown, and the
// agent would not kill it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/pod.h"

namespace forestall::cluster {

// Of each list of a pod; the agent accepts four times as many.
inline constexpr std::size_t kPartsMax = 64;
// Of one pod in a request to the agent, which accepts 16 KiB.
inline constexpr std::size_t kPodBytesMax = std::size_t{12} << 10;

enum class Fit : std::uint8_t {
  whole,      // nothing was left out
  shortened,  // without some tolerations, volumes, or names and ids of containers
  too_large,  // its own names are too long
};

// Leaves out as little as necessary. What decides about an eviction stays exact: identity,
// priority, QoS class, grace period, and the requests and limits of the whole pod.
[[nodiscard]] Fit fit(Pod& pod);

}  // namespace forestall::cluster
