// SPDX-License-Identifier: Apache-2.0
// Writes the kernel's own order of tied processes into their samples.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <vector>

#include "model/process.h"

namespace forestall::sources {

// Reassigns the `order` values of the samples `which` among them, ascending in the order of their
// pids in `walk`. Their order relative to all other samples is unchanged. Returns false and changes
// nothing if a pid is not in `walk`.
bool take_walk_order(std::span<const pid_t> walk, std::vector<ProcessSample>& samples,
                     const std::vector<std::size_t>& which);

}  // namespace forestall::sources
