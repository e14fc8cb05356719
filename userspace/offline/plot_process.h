// SPDX-License-Identifier: Apache-2.0
// Renders a picture as PNG. This needs cairo and fontconfig, which only forestall-plot links
// (userspace/plot, companion_program.h).
#pragma once

#include <string>

#include "base/result.h"
#include "forestall/internal/picture.pb.h"

namespace forestall::cli {

// The PNG. Errors: forestall-plot was not found, or failed.
[[nodiscard]] Result<std::string> plotted(const internal::Picture& picture);

}  // namespace forestall::cli
