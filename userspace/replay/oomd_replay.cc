// SPDX-License-Identifier: Apache-2.0
#include "replay/oomd_replay.h"

#include <utility>

namespace forestall::replay {

OomdReplay::OomdReplay(intake::OomdConfig config, std::string directory,
                       std::vector<rulesets::IoDevice> devices, bool dry_run)
    : base_(std::move(config.rulesets)), directory_(std::move(directory)) {
  rules_.program = rulesets::RuleProgram(base_, std::move(config.hooks));
  rules_.devices = std::move(devices);
  rules_.dry_run = dry_run;
}

DropInResult OomdReplay::apply(const std::string& name, const std::optional<std::string>& text) {
  if (name.starts_with('.')) return {name, "names that begin with a dot are ignored"};
  if (!text) {
    rules_.program.remove(name);
    return {name, {}};
  }
  const std::string path = directory_.empty() ? name : directory_ + "/" + name;
  text::Findings findings;
  auto drop_in = intake::parse_oomd_drop_in(path, name, *text, base_, findings);
  if (!drop_in) return {name, text::format(findings.errors)};
  rules_.program.add(std::move(drop_in->file));
  return {name, {}};
}

rulesets::RuleDecision OomdReplay::evaluate(const intake::ObservationLine& line,
                                            intake::RuleObservations& observations) {
  std::vector<rulesets::EffectAnswer> answers;
  while (true) {
    rulesets::RuleStep step = rulesets::step(rules_, state_, line.observation, answers);
    if (step.wanted) {
      answers.push_back(rulesets::effect_answer(answer(*step.wanted, line, observations)));
      continue;
    }
    state_ = std::move(step.state);
    for (const rulesets::RuleWrite& each : step.decision.writes) {
      if (!rules_.dry_run) observations.wrote(each.cgroup, each.file, each.value);
    }
    return std::move(step.decision);
  }
}

bool OomdReplay::answer(const rulesets::WantedEffect& effect, const intake::ObservationLine& line,
                        intake::RuleObservations& observations) {
  using Effect = rulesets::WantedEffect::Kind;
  const auto now = line.observation.time;
  switch (effect.kind) {
    case Effect::kill: return observations.kill(effect.target);
    case Effect::restart:
    case Effect::poll_restart: return true;
    case Effect::start_hook:
      hook_ends_[effect.hook_run] = now + line.hook_duration;
      [[fallthrough]];
    case Effect::poll_hook: return now >= hook_ends_[effect.hook_run];
  }
  return false;
}

}  // namespace forestall::replay
