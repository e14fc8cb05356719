// SPDX-License-Identifier: Apache-2.0
// Where a candidate ranks among all others: before or after them, whatever else is compared.
#pragma once

#include <cstdint>
#include <string_view>

namespace forestall {

// The order is that of the ranking, reversed.
enum class Preference : std::uint8_t { avoid, normal, prefer };

[[nodiscard]] std::string_view to_string(Preference preference);

}  // namespace forestall
