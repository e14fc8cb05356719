// SPDX-License-Identifier: Apache-2.0
#include "cli/program_main.h"

#include <cstdio>
#include <exception>

#include "cli/exit_code.h"

namespace forestall::cli {
namespace {

// Standard output is buffered: a full disk is reported only by the last flush.
int flushed(int exit_code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  // An earlier failed write leaves the error flag, and errno may be of another call.
  std::fprintf(stderr, "forestall: cannot write to standard output; the output is incomplete\n");
  return exit_code == kExitOk ? kExitFailed : exit_code;
}

}  // namespace

int program_main(int argc, char** argv, int (*run)(const std::vector<std::string>& arguments)) {
  // Our own code throws no exceptions. Those of libraries (bad_alloc, an invalid locale) end in an
  // error message instead of an abort.
  try {
    return flushed(run({argv + 1, argv + argc}));
  } catch (const std::exception& failure) {
    // fmt::print() throws if standard output cannot be written.
    if (std::ferror(stdout) != 0) return flushed(kExitFailed);
    std::fprintf(stderr, "forestall: %s\n", failure.what());
    return kExitFailed;
  }
}

}  // namespace forestall::cli
