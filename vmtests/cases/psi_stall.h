// SPDX-License-Identifier: Apache-2.0
// A cgroup that stalls for memory on one CPU, and what the kernel says of it.
#pragma once

#include <cstdint>
#include <string>

#include "support/scratch_cgroup.h"

namespace forestall::vm {

// What memory.pressure of `path`, a child of `scratch` with a limit of 24 MiB, grows by (`some`,
// us) while a process in it reads 64 MiB of page cache over and over. Takes some seconds, since
// the kernel folds stalls into what the file says every two. A failure of the reader is the test's.
[[nodiscard]] std::uint64_t psi_us_of_stalls(const test::ScratchCgroup& scratch,
                                             const std::string& path);

}  // namespace forestall::vm
