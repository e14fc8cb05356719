// SPDX-License-Identifier: Apache-2.0
#include "cli/top_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/printable.h"
#include "base/result.h"
#include "cli/companion_program.h"
#include "cli/exit_code.h"

namespace forestall::cli {

int become_companion(const std::string& command, std::vector<std::string> arguments) {
  std::string name = "forestall " + command;
  std::vector<char*> argv{name.data()};
  for (std::string& each : arguments) argv.push_back(each.data());
  argv.push_back(nullptr);
  const auto path = companion_program("forestall-" + command);
  if (path) ::execv(path->c_str(), argv.data());
  const Error failure = path ? errno_error("exec", *path) : path.error();
  fmt::print(stderr, "{}: {}\n", name, printable_lines(failure.text()));
  return kExitFailed;
}

}  // namespace forestall::cli
