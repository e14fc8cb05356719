// SPDX-License-Identifier: Apache-2.0
// How the threads that write settings wait.
#pragma once

#include <optional>

#include "base/clock.h"

namespace forestall::actuators {

// Until the eventfd is written, which this reads, until `other` (-1: nothing) is readable, or until
// `due`. May return earlier.
void wait_for_event(int eventfd, std::optional<MonotonicTime> due, int other = -1);

}  // namespace forestall::actuators
