// SPDX-License-Identifier: Apache-2.0
// What kind of filesystem a path lies on, from the text of /proc/PID/mountinfo alone: asking the
// filesystem itself, even for its type, hangs when it is a network mount whose server is gone.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace forestall::kernel {

// Type ("ext4", "fuse.sshfs") of the mount that `path`, absolute and free of symbolic links, lies
// on: the last of the deepest ones, which covers the others. Nothing when the text names none.
[[nodiscard]] std::optional<std::string> mounted_type(std::string_view mountinfo,
                                                      std::string_view path);

// Whether a filesystem of this type answers without a server that may be gone. By the type's name
// in mountinfo, and by f_type of statfs(2) (linux/magic.h).
[[nodiscard]] bool answers_locally(std::string_view type);
[[nodiscard]] bool answers_locally(long magic);

}  // namespace forestall::kernel
