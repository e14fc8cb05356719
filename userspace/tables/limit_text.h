// SPDX-License-Identifier: Apache-2.0
// The limit of a threshold whose capacity is unknown.
#pragma once

#include <string>

#include "forestall/v1/effective_config.pb.h"

namespace forestall::tables {

// As it is configured: "100Mi", "10%".
[[nodiscard]] std::string limit_text(const v1::Threshold& threshold);

}  // namespace forestall::tables
