// SPDX-License-Identifier: Apache-2.0
// Programs that are installed with this one and that it executes: forestall-top, forestall-plot.
// They are separate because the agent locks all code it maps in memory, and must not map their
// libraries.
#pragma once

#include <string>

#include "base/result.h"

namespace forestall::cli {

// Path of the program `name`. It is searched in this program's directory (as in a build tree), in
// libexec/forestall of this program's prefix, and in the configured install directory. Errors:
// ENOENT with the list of directories.
[[nodiscard]] Result<std::string> companion_program(const std::string& name);

}  // namespace forestall::cli
