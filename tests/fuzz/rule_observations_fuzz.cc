// SPDX-License-Identifier: Apache-2.0
// Any text as observations of rulesets: rejected with findings, or observations that are sorted,
// have every parent, and on which rulesets can be evaluated.
#include <cstddef>
#include <cstdint>
#include <string>

#include "intake/oomd_config.h"
#include "intake/rule_observations.h"
#include "require.h"
#include "rulesets/engine.h"

namespace forestall {
namespace {

using test::require;

constexpr const char* kConfig = R"({"rulesets": [{"name": "r", "post_action_delay": 0,
  "detectors": [["g", {"name": "continue"}],
    ["h", {"name": "pressure_rising_beyond",
           "args": {"cgroup": "*", "resource": "io", "threshold": 5, "duration": 1}},
          {"name": "memory_above", "args": {"cgroup": "/", "threshold": "5%", "duration": 1}}]],
  "actions": [{"name": "senpai", "args": {"cgroup": "*,*/*", "interval": 0,
                                          "modulate_swappiness": true, "immediate_backoff": true}},
    {"name": "senpai", "args": {"cgroup": "*", "interval": 0}},
    {"name": "kill_by_memory_size_or_growth", "args": {"cgroup": "*", "recursive": true}},
    {"name": "kill_by_pg_scan", "args": {"cgroup": "/", "recursive": true}}]}]})";

void run(std::string text) {
  text::Findings findings;
  auto config = intake::parse_oomd_config("oomd.json", kConfig, findings);
  require(config.has_value());
  rulesets::RuleConfig rules;
  rules.program = rulesets::RuleProgram(config->rulesets, {});
  rulesets::RuleState state;
  intake::RuleObservations observations("obs.jsonl", std::move(text));
  while (const auto line = observations.next(findings)) {
    const auto& cgroups = line->observation.cgroups;
    for (std::size_t i = 0; i < cgroups.size(); ++i) {
      require(i == 0 || cgroups[i - 1].path < cgroups[i].path);
      require(is_root(cgroups[i]) || line->observation.parent(cgroups[i]) != nullptr);
    }
    std::vector<rulesets::EffectAnswer> answers;
    while (true) {
      rulesets::RuleStep step = rulesets::step(rules, state, line->observation, answers);
      if (!step.wanted) {
        state = std::move(step.state);
        break;
      }
      answers.push_back(rulesets::effect_answer(observations.kill(step.wanted->target)));
    }
  }
}

}  // namespace
}  // namespace forestall

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  forestall::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
