// SPDX-License-Identifier: Apache-2.0
#include "cli/command_error.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <optional>
#include <vector>

#include "base/printable.h"
#include "messages/yaml_message.h"

namespace forestall::cli {
namespace {

bool is_option(const std::string& word) {
  return word.size() > 1 && word.front() == '-';
}

std::vector<std::string> long_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* each : command.get_options()) {
    for (const std::string& name : each->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string unknown_option(const CLI::App& app, const CLI::App& command, const std::string& name) {
  const std::string text = fmt::format("unknown option '{}'", name);
  // `forestall -c FILE` and `forestall -o json rank`: the options are those of the subcommand.
  const auto given = app.get_subcommands();
  const CLI::App& meant = given.empty() ? *app.get_subcommand("agent") : *given.front();
  if (&command == &app && meant.get_option_no_throw(name) != nullptr) {
    return fmt::format("{} before the subcommand; write forestall {} {}", text, meant.get_name(),
                       name);
  }
  const auto near = messages::nearest_word(name, long_options(command));
  return near ? fmt::format("{}; did you mean '{}'?", text, *near) : text;
}

// Of words that no option takes: the first that begins as an option, else the first.
std::string unexpected(const CLI::App& app, const CLI::App& command,
                       const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (is_option(word)) return unknown_option(app, command, word.substr(0, word.find('=')));
  }
  return fmt::format("unexpected argument '{}'", words.front());
}

}  // namespace

std::string command_error(const CLI::App& app, const CLI::Error& failure) {
  const auto given = app.get_subcommands();
  const std::vector<std::string> before = app.remaining();
  const CLI::App& command = given.empty() || !before.empty() ? app : *given.front();
  const std::string name =
      given.empty() ? app.get_name() : app.get_name() + " " + given.front()->get_name();
  const std::vector<std::string> words = command.remaining();
  const bool extras =
      failure.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) && !words.empty();
  const std::string text = extras ? unexpected(app, command, words) : failure.what();
  return fmt::format("{0}: {1}\nSee `{0} --help`.\n", name, printable_lines(text));
}

}  // namespace forestall::cli
