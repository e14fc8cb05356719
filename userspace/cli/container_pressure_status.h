// SPDX-License-Identifier: Apache-2.0
// The part of `forestall status` on memory pressure of single containers.
#pragma once

#include <string>

#include "forestall/v1/container_pressure.pb.h"

namespace forestall::cli {

[[nodiscard]] std::string container_pressure_text(const v1::ContainerPressureStatus& status);

}  // namespace forestall::cli
