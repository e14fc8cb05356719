// SPDX-License-Identifier: Apache-2.0
#include "offline/commands.h"

#include <fmt/format.h>

#include <utility>

#include "cli/exit_code.h"
#include "cli/rules_input.h"
#include "cli/ruleset_json.h"
#include "cli/ruleset_text.h"
#include "intake/rule_observations.h"
#include "offline/managed_oom.h"
#include "offline/refusal.h"

namespace forestall::cli {
namespace {

using intake::RuleObservations;

// The files that no line has for any cgroup but the root.
rulesets::AbsentFiles absent_files(const std::string& file, const std::string& text) {
  rulesets::AbsentFiles absent{true, true, true, true, true};
  RuleObservations observations(file, text);
  text::Findings findings;  // reported by the evaluation
  while (const auto line = observations.next(findings)) {
    for (const rulesets::Cgroup& each : line->observation.cgroups) {
      if (is_root(each)) continue;
      if (each.memory_pressure) absent.pressure = false;
      if (each.min) absent.min = false;
      if (each.low) absent.low = false;
      if (each.stat && each.stat->pgscan) absent.pgscan = false;
      if (each.oom_group) absent.oom_group = false;
    }
  }
  return absent;
}

}  // namespace

int run_managed_oom_rules(const Options& options, const ManagedOomOptions& managed,
                          const RulesOptions& rules) {
  const std::string& observations_file = rules.observations;
  text::Findings findings;
  const ManagedOomInput input = read_managed_oom(managed, findings);
  const auto text = read_input(observations_file);
  if (!text) findings.errors.push_back(finding_in(observations_file, text.error()));
  if (!findings.errors.empty()) return refuse(options, findings);
  rulesets::ManagedOomConfig config;
  config.conf = input.conf;
  config.dry_run = rules.dry_run;
  config.absent = absent_files(observations_file, *text);
  rulesets::ManagedOomState state;
  state.rules = input.rules;
  RuleObservations observations(observations_file, *text);
  const ShowPath shown = [&observations](std::string_view path) {
    return observations.shown(path);
  };
  while (const auto line = observations.next(findings)) {
    if (line->managed_oom) {
      for (const rulesets::ManagedOomElement& each : intake::read_managed_oom_elements(
               *line->managed_oom, observations_file, input.systemd_version, findings)) {
        state.apply(each, config.conf);
      }
    }
    std::vector<bool> answers;
    auto step = managed_oom_step(config, state, line->observation, answers);
    while (step.wanted_kill) {
      answers.push_back(observations.kill(*step.wanted_kill));
      step = managed_oom_step(config, state, line->observation, answers);
    }
    state = std::move(step.state);
    if (options.output == OutputFormat::json) {
      fmt::print("{}\n", decision_json(step.decision, shown).line());
    } else {
      fmt::print("{}", decision_text(step.decision, shown));
    }
  }
  for (const std::string& each : text::format_each(findings.warnings)) {
    fmt::print(stderr, "warning: {}\n", each);
  }
  return findings.errors.empty() ? kExitOk : refuse(options, findings);
}

}  // namespace forestall::cli
