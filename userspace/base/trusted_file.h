// SPDX-License-Identifier: Apache-2.0
// Files that decide what a privileged process does: accepted only if no user but root and the
// process's own can change them. The rules are those of sshd's StrictModes, with two
// exceptions for directories.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall {

// Opens a file for reading. The file, and every directory and symbolic link that its path leads
// through, must be owned by root or by the effective user, and not be writable for group or others.
// Exceptions: a directory with the sticky bit, in which others cannot replace the file; a directory
// on a read-only mount, such as a ConfigMap volume in a container.
//
// The descriptor and the checks of its owner and mode are of the same file. The error names path,
// owner, mode and remedy.
[[nodiscard]] Result<UniqueFd> open_trusted(const std::string& path);

// The same for a program, a regular file with a bit for execution. If it is a script, the same also
// holds for its interpreter, and for the interpreter of that.
[[nodiscard]] Result<UniqueFd> open_trusted_program(const std::string& path);

// The same for a socket: its owner, and the directories. Others may be permitted to connect to it.
[[nodiscard]] Result<void> check_trusted_socket(const std::string& path);

}  // namespace forestall
