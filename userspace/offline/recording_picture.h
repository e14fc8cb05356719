// SPDX-License-Identifier: Apache-2.0
// Builds the picture of a recording, for `forestall report`.
#pragma once

#include <string>

#include "base/result.h"
#include "forestall/internal/picture.pb.h"
#include "picture/builder.h"

namespace forestall::cli {

// `path`: a recording, or the directory of an agent's ring. A truncated or damaged recording is
// used as far as it is readable, with remarks. Errors: it does not exist or is not readable.
[[nodiscard]] Result<internal::Picture> picture_of_recording(const std::string& path,
                                                             const picture::Bounds& bounds);

}  // namespace forestall::cli
