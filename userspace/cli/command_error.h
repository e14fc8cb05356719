// SPDX-License-Identifier: Apache-2.0
// What is wrong with a command line, as text.
#pragma once

#include <string>

namespace CLI {
class App;
class Error;
}  // namespace CLI

namespace forestall::cli {

// Two lines: the mistake, with the similar option if there is one, and where the help is.
[[nodiscard]] std::string command_error(const CLI::App& app, const CLI::Error& failure);

}  // namespace forestall::cli
