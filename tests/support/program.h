// SPDX-License-Identifier: Apache-2.0
// Programs that tests and benchmarks start as a Child.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace forestall::test {

// For the body of a Child: replaces it by command[0] with these arguments. Standard output goes to
// `out`, standard error to `err`; -1: unchanged. Returns only if it fails: 127, for the exit code.
[[nodiscard]] int run_program(std::vector<std::string> command, int out, int err);

// CPU time of all threads of a process so far, in ms.
[[nodiscard]] double cpu_ms_of(pid_t pid);

}  // namespace forestall::test
