// SPDX-License-Identifier: Apache-2.0
// The type of a path's filesystem, from the text of /proc/PID/mountinfo alone: a call to the
// filesystem itself, even for its type, hangs on a network mount whose server is gone.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace forestall::kernel {

// Type ("ext4", "fuse.sshfs") of the mount that contains `path`: the last of the deepest ones,
// which covers the others. Nothing: the text has none. REQUIRES: `path` is absolute and has no
// symbolic links.
[[nodiscard]] std::optional<std::string> mounted_type(std::string_view mountinfo,
                                                      std::string_view path);

// Whether cgroup v2 is mounted with memory_recursiveprot (one mount decides for all): what a cgroup
// is protected by covers the cgroups below it, which need no values of their own.
[[nodiscard]] bool protects_recursively(std::string_view mountinfo);

// Whether a filesystem of this type needs no server, which could be gone. By the type's name in
// mountinfo, and by f_type of statfs(2) (linux/magic.h).
[[nodiscard]] bool answers_locally(std::string_view type);
[[nodiscard]] bool answers_locally(long magic);

}  // namespace forestall::kernel
