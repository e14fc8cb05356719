// SPDX-License-Identifier: Apache-2.0
// What the kernel has left before its OOM killer acts.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "base/bytes.h"
#include "model/observation.h"

namespace forestall {

// MemAvailable + SwapFree (mm/show_mem.c si_mem_available). Saturates: an observation may be any
// file.
[[nodiscard]] constexpr Bytes until_oom(Bytes available, Bytes swap_free) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(available.count, swap_free.count, &sum)) return Bytes{sum};
  using Limits = std::numeric_limits<std::int64_t>;
  return Bytes{available.count < 0 ? Limits::min() : Limits::max()};
}
// Nullopt: MemAvailable is unknown. Without SwapFree there is no swap that could be used.
[[nodiscard]] inline std::optional<Bytes> until_oom(const NodeSample& node) {
  if (!node.kernel_available) return std::nullopt;
  return until_oom(*node.kernel_available, node.swap_free.value_or(Bytes{0}));
}

}  // namespace forestall
