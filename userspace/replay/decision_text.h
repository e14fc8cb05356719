// SPDX-License-Identifier: Apache-2.0
// A decision in words.
#pragma once

#include <string>

#include "base/clock.h"
#include "model/decision.h"

namespace forestall::replay {

// The threshold that explains the decision: the driving one, else the first if it is met, else
// null.
[[nodiscard]] const Evidence* explaining(const Decision& decision);

// "memory.available 1500Mi < 2Gi (soft, met for 1m0s of 2m0s)".
[[nodiscard]] std::string describe(const Evidence& evidence, MonotonicTime now);

// "kill (threshold-met): memory.available 90Mi < 100Mi".
[[nodiscard]] std::string because(const Decision& decision, MonotonicTime now);

// The same with the victims: "...; evict leaker (/batch/leaker)".
[[nodiscard]] std::string in_short(const Decision& decision, MonotonicTime now);

}  // namespace forestall::replay
