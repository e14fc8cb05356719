// SPDX-License-Identifier: Apache-2.0
// A picture as an image. Drawing one takes cairo, fontconfig and their dependencies, which only
// forestall-plot (userspace/plot, companion_program.h) is linked to.
#pragma once

#include <string>

#include "base/result.h"
#include "forestall/v1/picture.pb.h"

namespace forestall::cli {

// The image, PNG. Errors: that program is not there, or could not draw.
[[nodiscard]] Result<std::string> plotted(const v1::Picture& picture);

}  // namespace forestall::cli
