// SPDX-License-Identifier: Apache-2.0
// The backstop: a threshold on memory.untilOom that an agent has by default. kubelet's
// memory.available counts neither the kernel's own memory nor what it keeps back, so the kernel may
// kill before that is met.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "intake/config_file.h"
#include "model/signal.h"

namespace forestall::intake {

inline constexpr Signal kBackstopSignal = Signal::memory_until_oom;

struct BackstopFacts {
  Bytes low_watermarks;            // of all zones
  Bytes memory;                    // of all zones
  std::int64_t fill_rate_max = 0;  // bytes per second
};

// MemAvailable counts page cache down to about the low watermarks as available
// (mm/show_mem.c si_mem_available()): that is how far it may be wrong. To it comes what can be
// filled while a kill takes effect. At least 16 MiB, at most 1 GiB; at most 5 % of memory, unless
// that is less than 16 MiB. Whole MiB.
[[nodiscard]] Bytes backstop_line(const BackstopFacts& facts);

// Adds the threshold, if the configuration enables it.
void add_backstop(const BackstopFacts& facts, LoadedConfig& loaded);

}  // namespace forestall::intake
