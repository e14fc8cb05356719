// SPDX-License-Identifier: Apache-2.0
// Amounts and times as people read them, with about three digits.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "model/signal.h"

namespace forestall::exports {

// "96Mi", "95.8Mi", "190Mi", "512"; inodes and tasks as whole numbers.
[[nodiscard]] std::string amount_text(std::int64_t amount, Unit unit = Unit::bytes);

// "95.8Mi < 96Mi": with as many digits as it takes to show that the two differ.
// REQUIRES: less < more.
[[nodiscard]] std::string less_text(std::int64_t less, std::int64_t more, Unit unit);

// "10.4 ms", "283 us", "3.2 s".
[[nodiscard]] std::string time_text(Duration time);

}  // namespace forestall::exports
