// SPDX-License-Identifier: Apache-2.0
// `forestall rules`: evaluates rulesets on observations from a file.
#include <fmt/format.h>
#include <poll.h>

#include <cstdio>
#include <utility>

#include "base/clock.h"
#include "base/printable.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/pod_input.h"
#include "cli/rules_input.h"
#include "cli/ruleset_json.h"
#include "cli/ruleset_text.h"
#include "intake/io_devices.h"
#include "intake/rule_observations.h"
#include "intake/senpai_config.h"
#include "kernel/cgroup_tree.h"
#include "offline/commands.h"
#include "replay/oomd_replay.h"
#include "sources/rule_reader.h"

namespace forestall::cli {
namespace {

using intake::RuleObservations;
using replay::DropInResult;

void print_decision(const Options& options, const rulesets::RuleDecision& decision,
                    const std::vector<DropInResult>& drop_ins, const ShowPath& shown) {
  if (options.output == OutputFormat::text) {
    for (const DropInResult& each : drop_ins) {
      fmt::print("drop-in {}: {}\n", printable(each.file),
                 each.error.empty() ? "applied" : printable_lines(each.error));
    }
    fmt::print("{}", decision_text(decision, shown));
    return;
  }
  text::JsonOutput out = decision_json(decision, shown);
  text::JsonOutput list = text::JsonOutput::list();
  for (const DropInResult& each : drop_ins) {
    text::JsonOutput item = text::JsonOutput::object();
    item.set("file", each.file).set("accepted", each.error.empty());
    if (!each.error.empty()) item.set("error", each.error);
    list.add(std::move(item));
  }
  out.set("dropIns", std::move(list));
  fmt::print("{}\n", out.line());
}

ShowPath shown_by(const RuleObservations& observations) {
  return [&observations](std::string_view path) { return observations.shown(path); };
}

// The rulesets of either kind of file.
std::optional<intake::OomdConfig> load_rules(const RulesOptions& rules, text::Findings& findings) {
  if (rules.config.empty()) return load_oomd_config(rules.oomd_config, findings);
  auto loaded = load_own_rulesets(rules.config, findings);
  if (!loaded) return std::nullopt;
  return intake::OomdConfig{std::move(loaded->rulesets), std::move(loaded->hooks), {}};
}

int run_oomd(const Options& options, const RulesOptions& rules, RuleObservations& observations) {
  text::Findings findings;
  auto devices = intake::parse_io_devices(rules.io_devices);
  if (!devices) return fail("rules", devices.error().in("--io-devices"), kExitUsage);
  auto config = load_rules(rules, findings);
  if (!config) return refuse(options, findings);
  replay::OomdReplay replay(std::move(*config), rules.drop_in_dir, std::move(*devices),
                            rules.dry_run);
  std::vector<DropInResult> drop_ins;
  if (!rules.drop_in_dir.empty()) {
    const auto files = read_drop_ins(rules.drop_in_dir);
    if (!files) {
      add_unreadable(rules.drop_in_dir, files.error(), findings);
      return refuse(options, findings);
    }
    for (const DropInText& each : *files) drop_ins.push_back(replay.apply(each.name, each.text));
  }
  while (const auto line = observations.next(findings)) {
    for (const intake::DropInChange& each : line->drop_ins) {
      drop_ins.push_back(replay.apply(each.file, each.text));
    }
    print_decision(options, replay.evaluate(*line, observations), drop_ins, shown_by(observations));
    drop_ins.clear();
  }
  return findings.errors.empty() ? kExitOk : refuse(options, findings);
}

void wait_until(const Clock& clock, MonotonicTime time) {
  for (Duration left = time - clock.now(); left > Duration::zero(); left = time - clock.now()) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec wait{seconds.count(), (left - seconds).count()};
    ::ppoll(nullptr, 0, &wait, nullptr);
  }
}

// Decides on this host once a second, and acts on nothing.
int run_live(const Options& options, const RulesOptions& rules) {
  text::Findings findings;
  auto devices = intake::parse_io_devices(rules.io_devices);
  if (!devices) return fail("rules", devices.error().in("--io-devices"), kExitUsage);
  auto config = load_rules(rules, findings);
  if (!config) return refuse(options, findings);
  const auto tree = kernel::CgroupTree::discover(options.cgroup_mount);
  if (!tree) return fail("rules", tree.error(), kExitFailed);
  rulesets::RuleConfig evaluated;
  evaluated.program = rulesets::RuleProgram(std::move(config->rulesets), std::move(config->hooks));
  evaluated.devices = std::move(*devices);
  evaluated.dry_run = true;
  const sources::RuleReader reader(*tree);
  const SystemClock clock;
  const MonotonicTime began = clock.now();
  rulesets::RuleState state;
  for (std::uint32_t done = 0; rules.count == 0 || done < rules.count; ++done) {
    wait_until(clock, began + std::chrono::seconds(done));
    rulesets::RuleObservation observed = reader.read(clock.now());
    observed.time -= began.time_since_epoch();
    // In a dry run only hooks need an answer: none runs, so each has finished.
    std::vector<rulesets::EffectAnswer> answers;
    rulesets::RuleStep step = rulesets::step(evaluated, state, observed, answers);
    while (step.wanted) {
      answers.push_back(rulesets::EffectAnswer::yes);
      step = rulesets::step(evaluated, state, observed, answers);
    }
    state = std::move(step.state);
    print_decision(options, step.decision, {},
                   [](std::string_view path) { return std::string(path); });
    std::fflush(stdout);
  }
  return kExitOk;
}

int run_senpai(const Options& options, const RulesOptions& rules, RuleObservations& observations) {
  text::Findings findings;
  const auto text = read_input(rules.senpai);
  if (!text) {
    add_unreadable(rules.senpai, text.error(), findings);
    return refuse(options, findings);
  }
  const auto config = intake::parse_senpai_config(rules.senpai, *text, findings);
  if (!config) return refuse(options, findings);
  std::optional<rulesets::StandaloneSenpaiState> state;
  while (const auto line = observations.next(findings)) {
    rulesets::RuleDecision decision;
    decision.time = line->observation.time;
    if (auto write = rulesets::step(*config, state, line->observation)) {
      if (!rules.dry_run) observations.wrote(write->cgroup, write->file, write->value);
      decision.writes.push_back(std::move(*write));
    }
    print_decision(options, decision, {}, shown_by(observations));
  }
  return findings.errors.empty() ? kExitOk : refuse(options, findings);
}

}  // namespace

int run_rules(const Options& options, const RulesOptions& rules) {
  if (rules.config.empty() && rules.oomd_config.empty() && rules.senpai.empty()) {
    return fail("rules", error("no rules: use --config, --oomd-config or --senpai"), kExitUsage);
  }
  if (rules.live && (!rules.senpai.empty() || !rules.drop_in_dir.empty())) {
    return fail("rules", error("--live needs --config or --oomd-config, without --drop-in-dir"),
                kExitUsage);
  }
  if (rules.live) return run_live(options, rules);
  auto text = read_input(rules.observations);
  if (!text) {
    text::Findings findings;
    add_unreadable(rules.observations, text.error(), findings);
    return refuse(options, findings);
  }
  RuleObservations observations(rules.observations, std::move(*text));
  return rules.senpai.empty() ? run_oomd(options, rules, observations)
                              : run_senpai(options, rules, observations);
}

}  // namespace forestall::cli
