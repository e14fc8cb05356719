// SPDX-License-Identifier: Apache-2.0
// forestall-top, which `forestall top` executes. It is a separate program because the agent locks
// all code it maps in memory, and must not map ncurses.
#include <cstdio>
#include <exception>

#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "top/app.h"

namespace forestall::top {
namespace {

// The arguments are those of `forestall`, "top" included.
int run(const std::vector<std::string>& arguments) {
  cli::CommandLine line;
  if (const auto exit_code = parse_command_line(arguments, line)) return *exit_code;
  if (line.subcommand != cli::Subcommand::top) {
    std::fputs("forestall-top: this program is run by `forestall top`\n", stderr);
    return cli::kExitUsage;
  }
  return run_top(line.options, line.top);
}

}  // namespace
}  // namespace forestall::top

int main(int argc, char** argv) {
  // Our own code throws no exceptions. Those of libraries (bad_alloc) end here, after the
  // destructor that restores the terminal.
  try {
    return forestall::top::run({argv + 1, argv + argc});
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "forestall top: %s\n", failure.what());
    return forestall::cli::kExitFailed;
  }
}
