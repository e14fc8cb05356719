// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace forestall {

// As Go's strconv.ParseBool: 1, t, T, TRUE, true or True; 0, f, F, FALSE, false or False.
[[nodiscard]] inline std::optional<bool> parse_go_bool(std::string_view text) {
  for (const std::string_view each : {"1", "t", "T", "TRUE", "true", "True"}) {
    if (text == each) return true;
  }
  for (const std::string_view each : {"0", "f", "F", "FALSE", "false", "False"}) {
    if (text == each) return false;
  }
  return std::nullopt;
}

}  // namespace forestall
