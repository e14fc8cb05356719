// SPDX-License-Identifier: Apache-2.0
#include "cli/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <string>

namespace forestall::cli {
namespace {

using Kind = CompletedValue::Kind;

// "text|json", but not "FILE|FORMAT".
bool is_choice(const std::string& form) {
  return form.find('|') != std::string::npos &&
         std::none_of(form.begin(), form.end(), [](unsigned char c) { return std::isupper(c); });
}

CompletedValue value_of(const CLI::Option& option) {
  // A value that may be left out is not offered: the next word is no value.
  if (option.get_items_expected_max() == 0 || option.get_items_expected_min() == 0) return {};
  const std::string& form = option.get_option_text();
  for (const std::string& words : {option.get_type_name(), form}) {
    if (is_choice(words)) return {Kind::words, CLI::detail::split(words, '|')};
  }
  if (form == "DIRECTORY") return {Kind::directories};
  if (form.starts_with("FILE") || form == "PATH") return {Kind::files};
  return {Kind::text};
}

// Arguments are recordings and such, except numbers and words.
CompletedValue argument_of(const CLI::Option& option) {
  CompletedValue value = value_of(option);
  if (value.kind == Kind::text && option.get_name() != "pid") value.kind = Kind::files;
  return value;
}

CompletedCommand completed(const CLI::App& command) {
  CompletedCommand out;
  out.name = command.get_name();
  out.help = command.get_description();
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) {
      out.arguments = argument_of(*option);
      continue;
    }
    CompletedOption& added = out.options.emplace_back();
    for (const std::string& name : option->get_snames()) added.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) added.names.push_back("--" + name);
    added.help = option->get_description();
    added.value = value_of(*option);
  }
  return out;
}

// A nested subcommand, such as `rebalance simulate`, is offered as an argument, and its options are
// those of the command.
CompletedCommand completed_with_nested(const CLI::App& command) {
  CompletedCommand out = completed(command);
  for (const CLI::App* nested : command.get_subcommands({})) {
    out.arguments.kind = Kind::words;
    out.arguments.words.push_back(nested->get_name());
    for (CompletedOption& each : completed(*nested).options) {
      const auto known = [&](const CompletedOption& other) { return other.names == each.names; };
      if (std::ranges::none_of(out.options, known)) out.options.push_back(std::move(each));
    }
  }
  return out;
}

}  // namespace

std::vector<CompletedCommand> command_tree(const CLI::App& app) {
  std::vector<CompletedCommand> commands{completed(app)};
  CompletedValue names{Kind::words};
  for (const CLI::App* command : app.get_subcommands({})) {
    commands.push_back(completed_with_nested(*command));
    names.words.push_back(command->get_name());
  }
  commands.front().arguments = names;
  for (CompletedCommand& command : commands) {
    if (command.name == "help") command.arguments = names;
  }
  return commands;
}

}  // namespace forestall::cli
