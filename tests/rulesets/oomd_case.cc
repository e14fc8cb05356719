// SPDX-License-Identifier: Apache-2.0
#include "oomd_case.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "intake/config_check.h"
#include "intake/io_devices.h"
#include "intake/ruleset_config.h"
#include "replay/oomd_replay.h"

namespace forestall::test {
namespace {

std::string action_text(const rulesets::ActionRun& action, bool names) {
  std::string text = (names ? action.name : "action") + "=" + std::string(to_string(action.result));
  std::string attempts;
  for (const rulesets::KillAttempt& each : action.attempts) {
    attempts +=
        (attempts.empty() ? "" : ", ") + each.cgroup + " " + std::string(to_string(each.outcome));
  }
  return attempts.empty() ? text : text + "(" + attempts + ")";
}

void add_part(std::string& text, const std::string& part) {
  text += (text.empty() ? "" : " ") + part;
}

std::string decision_summary(const rulesets::RuleDecision& decision, bool names) {
  std::string text;
  for (const rulesets::RulesetRun& run : decision.rulesets) {
    add_part(text, run.name + "[" + run.group.value_or("") + "]");
    if (!run.drop_in.empty()) add_part(text, "of " + run.drop_in);
    if (run.paused) add_part(text, "paused");
    if (run.resumed) add_part(text, "resumed");
    for (const rulesets::ActionRun& each : run.detectors) {
      add_part(text, "d:" + action_text(each, names));
    }
    for (const rulesets::ActionRun& each : run.actions) add_part(text, action_text(each, names));
  }
  for (const rulesets::RuleWrite& each : decision.writes) {
    const std::string value = each.value == rulesets::kNoLimit ? "max" : std::to_string(each.value);
    std::string part = "write " + each.cgroup + "/" + each.file + "=" + value;
    if (each.timeout_us) part += "@" + std::to_string(*each.timeout_us);
    add_part(text, part);
  }
  for (const rulesets::UnitRestart& each : decision.restarts) {
    add_part(text, "restart " + each.service);
  }
  return text;
}

std::optional<intake::OomdConfig> own_config(const std::string& yaml, text::Findings& findings) {
  intake::ReadConfig read;
  read.file = "config.yaml";
  std::vector<text::Diagnostic> problems;
  read.places = messages::read_yaml(yaml, read.message, problems);
  findings.add_errors(read.file, problems);
  intake::Report report(read.file, read.places, findings);
  auto rulesets = intake::check_rulesets(read.message, report);
  if (!findings.errors.empty()) return std::nullopt;
  return intake::OomdConfig{std::move(rulesets), {}, {}};
}

struct CaseResult {
  std::vector<std::string> texts;
  std::string ranking;
};

CaseResult run_case(const OomdCase& given) {
  CaseResult result;
  text::Findings findings;
  auto config = given.own
                    ? own_config(given.config, findings)
                    : intake::parse_oomd_config("oomd.json", double_quoted(given.config), findings);
  EXPECT_TRUE(config) << text::format(findings.errors);
  if (!config) return result;
  auto devices = intake::parse_io_devices(given.io_devices);
  replay::OomdReplay replay(std::move(*config), "", devices.value(), given.dry_run);
  std::string lines;
  for (const std::string& each : given.lines) lines += double_quoted(each) + "\n";
  intake::RuleObservations observations("obs.jsonl", lines);
  while (const auto line = observations.next(findings)) {
    std::string text;
    for (const intake::DropInChange& each : line->drop_ins) {
      const auto text_of = each.text ? std::optional(double_quoted(*each.text)) : std::nullopt;
      const replay::DropInResult applied = replay.apply(each.file, text_of);
      if (!applied.error.empty()) add_part(text, "drop-in " + each.file + " refused");
    }
    const rulesets::RuleDecision decision = replay.evaluate(*line, observations);
    const std::string summary = decision_summary(decision, given.names);
    if (!summary.empty()) add_part(text, summary);
    result.texts.push_back(text);
    result.ranking.clear();
    for (const rulesets::RulesetRun& run : decision.rulesets) {
      for (const rulesets::ActionRun& action : run.actions) {
        result.ranking.clear();
        for (const rulesets::RankedCgroup& each : action.ranking) {
          add_part(result.ranking, each.cgroup);
        }
      }
    }
  }
  EXPECT_TRUE(findings.errors.empty()) << text::format(findings.errors);
  return result;
}

}  // namespace

std::string double_quoted(std::string_view json) {
  std::string text(json);
  std::replace(text.begin(), text.end(), '\'', '"');
  return text;
}

std::string one_ruleset(std::string_view detectors, std::string_view actions,
                        std::string_view more) {
  return "{'rulesets': [{'name': 'r', 'detectors': [['g', " + std::string(detectors) +
         "]], 'actions': [" + std::string(actions) + "]" + std::string(more) + "}]}";
}

std::vector<std::string> outcomes(const OomdCase& given) {
  return run_case(given).texts;
}

std::string last_ranking(const OomdCase& given) {
  return run_case(given).ranking;
}

}  // namespace forestall::test
