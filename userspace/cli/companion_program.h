// SPDX-License-Identifier: Apache-2.0
// Programs that come with this one and that it runs: forestall-top, forestall-plot. They are
// programs of their own because this one is the agent as well, which keeps all code it maps in
// memory, and libraries that draw are none of that.
#pragma once

#include <string>

#include "base/result.h"

namespace forestall::cli {

// The path of the one called `name`: beside this program, as in a build tree; in libexec/forestall
// of the prefix that this program lies in; or where it was to be installed. Errors: it is in none
// of them, ENOENT, and which they are.
[[nodiscard]] Result<std::string> companion_program(const std::string& name);

}  // namespace forestall::cli
