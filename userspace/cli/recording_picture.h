// SPDX-License-Identifier: Apache-2.0
// A recording as a picture: what `forestall report` draws.
#pragma once

#include <string>

#include "base/result.h"
#include "forestall/v1/picture.pb.h"
#include "picture/builder.h"

namespace forestall::cli {

// `path`: a recording, or the directory of an agent's ring. One that is cut or damaged is drawn as
// far as it can be read, and the picture's remarks say so. Errors: there is none, or it cannot be
// read at all.
[[nodiscard]] Result<v1::Picture> picture_of_recording(const std::string& path,
                                                       const picture::Bounds& bounds);

}  // namespace forestall::cli
