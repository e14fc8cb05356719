// SPDX-License-Identifier: Apache-2.0
// Exit codes of every subcommand. The man page lists them.
#pragma once

namespace forestall::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,      // the command failed, or a check does not hold
  kExitUsage = 2,       // bad command line, configuration or input file
  kExitUnguarded = 3,   // doctor: no usable event source or no means to kill
  kExitOtherAgent = 4,  // another agent is running
};

}  // namespace forestall::cli
