// SPDX-License-Identifier: Apache-2.0
// The help of the program and of its subcommands, from CLI11's description of them.
#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace forestall::cli {

// Applies to the subcommands that are added later.
void set_help_format(CLI::App& app);

}  // namespace forestall::cli
