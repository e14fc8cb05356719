// SPDX-License-Identifier: Apache-2.0
// What main() of our programs does around the command.
#pragma once

#include <string>
#include <vector>

namespace forestall::cli {

// Calls `run` with the arguments without the program's name, and returns the exit code of the
// process: that of `run`, or kExitFailed if standard output could not be written or the standard
// library threw, with an error message.
[[nodiscard]] int program_main(int argc, char** argv,
                               int (*run)(const std::vector<std::string>& arguments));

}  // namespace forestall::cli
