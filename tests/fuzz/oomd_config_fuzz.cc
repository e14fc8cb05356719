// SPDX-License-Identifier: Apache-2.0
// Any text as oomd.json and as its own drop-in: rejected with findings, or rulesets that an
// evaluation accepts.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "intake/oomd_config.h"
#include "require.h"
#include "rulesets/engine.h"

namespace forestall {
namespace {

using test::require;

rulesets::RuleObservation small_host() {
  rulesets::RuleObservation observed;
  for (const char* path : {"/", "/a", "/a/b"}) {
    rulesets::Cgroup& cgroup = observed.cgroups.emplace_back();
    cgroup.path = path;
    cgroup.id = observed.cgroups.size();
    cgroup.current = 1 << 20;
    cgroup.swap_current = 5;
  }
  return observed;
}

void run(std::string_view input) {
  text::Findings findings;
  auto config = intake::parse_oomd_config("oomd.json", input, findings);
  require(config.has_value() == findings.errors.empty());
  if (!config) return;
  text::Findings drop_in_findings;
  auto drop_in =
      intake::parse_oomd_drop_in("a.json", "a.json", input, config->rulesets, drop_in_findings);
  require(drop_in.has_value() == drop_in_findings.errors.empty());
  rulesets::RuleConfig rules;
  rules.program = rulesets::RuleProgram(config->rulesets, config->hooks);
  if (drop_in) rules.program.add(std::move(drop_in->file));
  rulesets::RuleObservation observed = small_host();
  rulesets::RuleState state;
  for (int time = 0; time < 3; ++time) {
    observed.time += std::chrono::seconds(1);
    std::vector<rulesets::EffectAnswer> answers;
    while (true) {
      rulesets::RuleStep step = rulesets::step(rules, state, observed, answers);
      if (!step.wanted) {
        state = std::move(step.state);
        break;
      }
      answers.push_back(rulesets::effect_answer(answers.size() % 2 == 0));
    }
  }
}

}  // namespace
}  // namespace forestall

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  forestall::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
