// SPDX-License-Identifier: Apache-2.0
// A cgroup that stalls for memory on one CPU, and the kernel's figures for it.
#pragma once

#include <cstdint>
#include <string>

#include "support/scratch_cgroup.h"

namespace forestall::vm {

// The growth of memory.pressure of `path`, a child of `scratch` with a limit of 24 MiB (`some`,
// us), while a process in it reads 64 MiB of page cache repeatedly. Takes some seconds, since the
// kernel updates the file every two. A failure of the reader fails the test.
[[nodiscard]] std::uint64_t psi_us_of_stalls(const test::ScratchCgroup& scratch,
                                             const std::string& path);

}  // namespace forestall::vm
