// SPDX-License-Identifier: Apache-2.0
// Devices whose I/O has a cost, with oomd's coefficients for disks and flash.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/ruleset.h"

namespace forestall::intake {

// "8:0=hdd,259:0=ssd".
[[nodiscard]] Result<std::vector<rulesets::IoDevice>> parse_io_devices(std::string_view text);

}  // namespace forestall::intake
