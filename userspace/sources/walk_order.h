// SPDX-License-Identifier: Apache-2.0
// The kernel's own order of processes that tie, put into their samples.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <vector>

#include "model/process.h"

namespace forestall::sources {

// Hands the values of `order` that the samples `which` have out among them anew, ascending as their
// pids come in `walk`: so that they stay as they were against all others. False, and nothing is
// changed, if one of them is not in it.
bool take_walk_order(std::span<const pid_t> walk, std::vector<ProcessSample>& samples,
                     const std::vector<std::size_t>& which);

}  // namespace forestall::sources
