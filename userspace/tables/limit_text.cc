// SPDX-License-Identifier: Apache-2.0
#include "tables/limit_text.h"

#include <fmt/format.h>

namespace forestall::tables {

std::string limit_text(const v1::Threshold& threshold) {
  const v1::Limit& limit = threshold.limit();
  if (limit.has_fraction()) return fmt::format("{:.3g}%", limit.fraction() * 100);
  return limit.quantity();
}

}  // namespace forestall::tables
