// SPDX-License-Identifier: Apache-2.0
// Names in tables of limited width.
#pragma once

#include <cstddef>
#include <string>

#include "base/printable.h"

namespace forestall::cli {

// Printable, and without its begin if it is longer: paths differ at their end.
[[nodiscard]] inline std::string shortened(const std::string& text, std::size_t width) {
  const std::string safe = printable(text);
  return safe.size() <= width ? safe : "..." + safe.substr(safe.size() + 3 - width);
}

}  // namespace forestall::cli
