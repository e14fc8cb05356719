// SPDX-License-Identifier: Apache-2.0
#include "cli/agent_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "cli/rules_input.h"
#include "clients/unit_restart.h"
#include "intake/oomd_config.h"
#include "intake/oomd_import.h"
#include "intake/ruleset_config.h"
#include "kernel/cgroup_tree.h"
#include "rulesets/program.h"

namespace forestall::cli {
namespace {

Result<void> add_drop_ins(const std::string& directory, intake::OomdConfig& config,
                          text::Findings& findings) {
  rulesets::RuleProgram program(config.rulesets, config.hooks);
  for (const DropInText& each : TRY(read_drop_ins(directory))) {
    const std::string path = directory + "/" + each.name;
    // What is parsed is what was checked: the file may have been replaced since it was listed.
    const std::string text = TRY(intake::read_trusted_text_file(path));
    auto drop_in = intake::parse_oomd_drop_in(path, each.name, text, config.rulesets, findings);
    if (!drop_in) continue;
    program.add(std::move(drop_in->file));
  }
  config.rulesets.clear();
  config.hooks = program.hooks();
  for (const rulesets::RulesetInstance& each : program.order()) {
    rulesets::Ruleset& added = config.rulesets.emplace_back(*each.ruleset);
    if (!each.drop_in.empty()) added.name += " (" + each.drop_in + ")";
  }
  return {};
}

// The places are of rulesets: the names of oomd.json have no positions.
void find_not_run(const std::string& file, const std::vector<rulesets::Ruleset>& rulesets,
                  text::Findings& findings) {
  for (const rulesets::Ruleset& ruleset : rulesets) {
    for (std::size_t a = 0; a < ruleset.actions.size(); ++a) {
      const rulesets::Plugin& action = ruleset.actions[a];
      std::string_view why = intake::not_run_by_agent(action);
      if (std::holds_alternative<rulesets::RestartUnit>(action.arguments) &&
          !clients::systemd_is_running()) {
        why = intake::kNoSystemd;
      }
      if (why.empty()) continue;
      findings.errors.push_back({{file, std::nullopt},
                                 fmt::format("ruleset '{}', action {} ('{}'): {}", ruleset.name,
                                             a + 1, action.name, why)});
    }
  }
}

Result<intake::ImportedRulesets> load_agent_oomd(const Options& options) {
  const std::string& file = options.oomd_config;
  const std::string text = TRY(intake::read_trusted_text_file(file));
  text::Findings findings;
  auto config = intake::parse_oomd_config(file, text, findings);
  if (config && !options.oomd_drop_in_dir.empty()) {
    TRY(add_drop_ins(options.oomd_drop_in_dir, *config, findings));
  }
  std::optional<intake::ImportedRulesets> imported;
  if (config && findings.errors.empty()) imported = intake::import_oomd(file, *config, findings);
  if (imported) find_not_run(file, imported->rulesets, findings);
  if (!findings.errors.empty()) return error(text::format(findings.errors));
  return std::move(*imported);
}

// A hook is found by its name.
Result<void> check_hook_names(const Options& options,
                              const std::vector<rulesets::PrekillHook>& of_oomd,
                              const std::vector<rulesets::PrekillHook>& own) {
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (std::ranges::find(of_oomd, own[i].name, &rulesets::PrekillHook::name) == of_oomd.end()) {
      continue;
    }
    return error(fmt::format("prekillHooks[{}].name: the name '{}' is that of a hook of {}", i,
                             own[i].name, options.oomd_config));
  }
  return {};
}

// The configuration has compared them with its own rulesets.
Result<void> check_reclaim_names(const Options& options, const intake::LoadedConfig& loaded) {
  for (const rulesets::Ruleset& each : loaded.reclaim) {
    if (std::ranges::find(loaded.rulesets, each.name, &rulesets::Ruleset::name) !=
        loaded.rulesets.end()) {
      return error(fmt::format("reclaim: '{}' is the name of a ruleset of {}", each.name,
                               options.oomd_config));
    }
  }
  return {};
}

}  // namespace

Result<void> add_agent_rules(const Options& options, intake::LoadedConfig& loaded) {
  if (!loaded.not_run_by_agent.empty()) {
    return error(fmt::format("{}", fmt::join(loaded.not_run_by_agent, "\n")));
  }
  if (!loaded.refused_without_systemd.empty() && !clients::systemd_is_running()) {
    return error(fmt::format("{}", fmt::join(loaded.refused_without_systemd, "\n")));
  }
  const auto tree = kernel::CgroupTree::discover(options.cgroup_mount);
  if (tree && tree->version() == kernel::CgroupVersion::v1 && !loaded.refused_on_v1.empty()) {
    return error(fmt::format("{}", fmt::join(loaded.refused_on_v1, "\n")));
  }
  if (options.oomd_config.empty()) {
    if (!options.oomd_drop_in_dir.empty()) {
      return error("--oomd-drop-in-dir requires --oomd-config");
    }
  } else if (!loaded.rulesets.empty()) {
    return error(
        "--oomd-config and 'rulesets' of the configuration exclude each other; remove one");
  } else {
    intake::ImportedRulesets imported = TRY(load_agent_oomd(options));
    loaded.rulesets = std::move(imported.rulesets);
    TRY(check_hook_names(options, imported.hooks, loaded.hooks));
    // The configuration's own hooks follow oomd's.
    loaded.hooks.insert(loaded.hooks.begin(), std::make_move_iterator(imported.hooks.begin()),
                        std::make_move_iterator(imported.hooks.end()));
    for (const std::string& note : imported.notes) {
      loaded.warnings.push_back(options.oomd_config + ": " + note);
    }
  }
  // Rulesets have such names from systemd's properties.
  const bool named = std::ranges::any_of(loaded.rulesets, [](const rulesets::Ruleset& each) {
    return each.name.starts_with("ManagedOOM");
  });
  if (loaded.managed_oom && named) {
    return error("a ruleset's name begins with ManagedOOM while 'managedOOM' is on; rename it");
  }
  const bool has_rules = !loaded.rulesets.empty() || loaded.managed_oom;
  if (!has_rules && !loaded.hooks.empty()) {
    loaded.warnings.emplace_back("'prekillHooks' has no effect: there are no rulesets");
  }
  TRY(check_reclaim_names(options, loaded));
  loaded.rulesets.insert(loaded.rulesets.end(), loaded.reclaim.begin(), loaded.reclaim.end());
  if (!loaded.rulesets.empty()) loaded.config.rules = loaded.rulesets;
  if (has_rules && !loaded.hooks.empty()) loaded.config.hooks = loaded.hooks;
  return {};
}

}  // namespace forestall::cli
