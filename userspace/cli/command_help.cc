// SPDX-License-Identifier: Apache-2.0
#include "cli/command_help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cli/help_text.h"

namespace forestall::cli {
namespace {

constexpr const char* kOptions = "Options";

// CLI11 keeps these in the order of their addresses.
std::string joined_names(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) names.push_back(option->get_name());
  std::sort(names.begin(), names.end());
  return CLI::detail::join(names, ", ");
}

// "-o,--output" as "-o, --output".
std::string spaced(std::string names) {
  if (const auto comma = names.find(','); comma != std::string::npos) names.insert(comma + 1, " ");
  return names;
}

HelpEntry help_entry(const CLI::Option& option) {
  HelpEntry entry;
  const bool positional = option.get_positional();
  entry.name = positional ? option.get_name(true) : spaced(option.get_name(false, true));
  if (!option.get_option_text().empty()) entry.name += " " + option.get_option_text();
  entry.description = option.get_description();
  if (option.get_required()) entry.description += " (required)";
  const std::string needs = joined_names(option.get_needs());
  if (!needs.empty()) entry.description += " (needs " + needs + ")";
  const std::string excludes = joined_names(option.get_excludes());
  if (!excludes.empty()) entry.description += " (not with " + excludes + ")";
  return entry;
}

HelpGroup& group_titled(std::vector<HelpGroup>& groups, const std::string& title) {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const HelpGroup& group) { return group.title == title; });
  return found != groups.end() ? *found : groups.emplace_back(HelpGroup{title, {}});
}

std::string formatted_help(const CLI::App* app, const std::string& name, CLI::AppFormatMode) {
  HelpText help{app->get_description(), name + " [OPTIONS]", {}, app->get_footer()};
  for (const CLI::App* command : app->get_subcommands({})) {
    group_titled(help.groups, command->get_group())
        .entries.push_back({command->get_name(), command->get_description()});
  }
  if (!help.groups.empty()) help.usage = name + " [SUBCOMMAND] [OPTIONS]";
  for (const CLI::Option* option : app->get_options({})) {
    const bool positional = option->get_positional();
    if (positional) {
      const std::string word = option->get_name(true);
      const bool many = option->get_items_expected_max() > 1;
      help.usage += option->get_required() ? " " + word : " [" + word + (many ? "...]" : "]");
    }
    if (option == app->get_help_ptr() || option == app->get_version_ptr()) continue;
    group_titled(help.groups, positional ? "Arguments" : option->get_group())
        .entries.push_back(help_entry(*option));
  }
  HelpGroup& own = group_titled(help.groups, kOptions);
  for (const CLI::Option* option : {app->get_help_ptr(), app->get_version_ptr()}) {
    if (option != nullptr) own.entries.push_back(help_entry(*option));
  }
  return help_text(help);
}

}  // namespace

void set_help_format(CLI::App& app) {
  app.formatter_fn(formatted_help);
}

}  // namespace forestall::cli
