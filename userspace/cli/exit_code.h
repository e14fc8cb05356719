// SPDX-License-Identifier: Apache-2.0
// Exit codes of every subcommand, as the man page lists them.
#pragma once

namespace forestall::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,      // the command could not do its job, or what it checks does not hold
  kExitUsage = 2,       // bad command line, configuration or input file
  kExitUnguarded = 3,   // doctor: nothing can guard this host
  kExitOtherAgent = 4,  // another agent is running
};

}  // namespace forestall::cli
