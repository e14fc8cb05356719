// SPDX-License-Identifier: Apache-2.0
// Mistakes of input files that readers return as errors, as findings with their place.
#pragma once

#include <string>

#include "base/result.h"
#include "text/diagnostic.h"

namespace forestall::cli {

// A finding of an error that a reader of the file `path` returned: its text may begin with the path
// and a position, "pods.json:3:7: …".
[[nodiscard]] text::Finding finding_in(const std::string& path, const Error& failure);

}  // namespace forestall::cli
