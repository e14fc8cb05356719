// SPDX-License-Identifier: Apache-2.0
// A file that a command writes because an option names it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace forestall::cli {

// Writes the new file completely before it gets its name. Errors: it exists and `force` is false.
[[nodiscard]] Result<void> write_file(const std::string& path, bool force, std::string_view text);
[[nodiscard]] Result<void> write_all(int fd, std::string_view text, const std::string& name);

}  // namespace forestall::cli
