// SPDX-License-Identifier: Apache-2.0
// A file that at most one process has locked; it contains that process's pid.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall {

// Opens or creates `path` and locks it for as long as the descriptor is open; the kernel unlocks it
// when the process ends. The file gets mode 0600, because every process that may open it may also
// lock it. Errors: EWOULDBLOCK, with the holder ("pid 7") as the message; a file of another user,
// or not a regular one; file system errors.
[[nodiscard]] Result<UniqueFd> lock_file(const std::string& path);

}  // namespace forestall
