// SPDX-License-Identifier: Apache-2.0
// A pressure file as rulesets compare it.
#pragma once

#include <optional>
#include <string_view>

#include "model/rule_observation.h"

namespace forestall::sources {

// Nothing: the text is not that of a pressure file.
[[nodiscard]] std::optional<rulesets::PressureFile> rule_pressure(std::string_view text);

}  // namespace forestall::sources
