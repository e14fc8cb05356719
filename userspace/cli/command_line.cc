// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "base/printable.h"
#include "cli/command_arguments.h"
#include "cli/command_error.h"
#include "cli/command_help.h"
#include "cli/command_tree.h"
#include "cli/exit_code.h"
#include "cli/rebalance_options.h"
#include "cli/subcommand_table.h"
#include "messages/yaml_message.h"

namespace forestall::cli {
namespace {

constexpr const char* kDescription =
    "Forestall acts on memory pressure before the Linux OOM killer does.\n"
    "Without a subcommand it runs the agent.";

constexpr const char* kFooter =
    "`forestall SUBCOMMAND --help` lists the options of a subcommand.\n"
    "Exit codes: 0 success; 1 failure, or a check that does not hold; 2 invalid command line, "
    "configuration or input; 3 this host cannot be guarded; 4 another agent is running.\n"
    "See forestall(8).";

// `help` is another word for the option. It is a subcommand of CLI11 as well, so that help lists it
// and further arguments are refused.
constexpr const char* kHelpAlias = "help";

std::vector<std::string> without_alias(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] != kHelpAlias) return arguments;
  if (arguments.size() == 1) return {"--help"};
  if (arguments.size() == 2 && !arguments[1].starts_with('-')) return {arguments[1], "--help"};
  return arguments;
}

// Whether the first argument is neither an option nor a subcommand; then prints an error.
bool refuses_subcommand(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0].starts_with('-')) return false;
  std::vector<std::string> names = subcommand_names();
  names.emplace_back(kHelpAlias);
  if (std::find(names.begin(), names.end(), arguments[0]) != names.end()) return false;
  const auto near = messages::nearest_word(arguments[0], names);
  std::fprintf(stderr, "forestall: unknown subcommand '%s'; %s`forestall --help` lists all\n",
               printable(arguments[0]).c_str(),
               near ? ("did you mean '" + *near + "'? ").c_str() : "");
  return true;
}

}  // namespace

std::optional<int> parse_command_line(const std::vector<std::string>& given, CommandLine& line) {
  const std::vector<std::string> arguments = without_alias(given);
  if (refuses_subcommand(arguments)) return kExitUsage;
  CLI::App app(kDescription, "forestall");
  set_help_format(app);
  app.failure_message(
      [](const CLI::App* all, const CLI::Error& failure) { return command_error(*all, failure); });
  app.footer(kFooter);
  app.set_version_flag("--version", "forestall " FORESTALL_VERSION, "Print the version and exit");
  app.require_subcommand(0, 1);
  add_subcommands(app, line);
  app.add_subcommand(kHelpAlias, "Show the help of a subcommand: forestall help rank")
      ->group(kHelpGroup);
  try {
    app.parse(reversed(with_empty_values(*app.get_subcommand("rebalance"), arguments)));
  } catch (const CLI::ParseError& failure) {
    return app.exit(failure) == 0 ? kExitOk : kExitUsage;
  }
  if (line.subcommand == Subcommand::completion) line.completion.commands = command_tree(app);
  return std::nullopt;
}

}  // namespace forestall::cli
