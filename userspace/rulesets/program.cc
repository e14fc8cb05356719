// SPDX-License-Identifier: Apache-2.0
#include "rulesets/program.h"

#include <utility>

namespace forestall::rulesets {

RuleProgram::RuleProgram(std::vector<Ruleset> rulesets, std::vector<PrekillHook> hooks)
    : base_hooks_(std::move(hooks)) {
  for (Ruleset& each : rulesets) {
    base_.push_back({next_id_++, std::make_shared<const Ruleset>(std::move(each)), ""});
  }
}

void RuleProgram::add(DropInFile drop_in) {
  remove(drop_in.file);
  Added& added = added_.emplace_back();
  added.file = std::move(drop_in.file);
  added.hooks = std::move(drop_in.hooks);
  for (DropInRuleset& each : drop_in.rulesets) {
    added.bases.push_back(each.base);
    added.instances.push_back(
        {next_id_++, std::make_shared<const Ruleset>(std::move(each.merged)), added.file});
  }
}

void RuleProgram::remove(std::string_view file) {
  std::erase_if(added_, [file](const Added& each) { return each.file == file; });
}

std::vector<RulesetInstance> RuleProgram::order() const {
  std::vector<RulesetInstance> order;
  for (std::size_t base = 0; base < base_.size(); ++base) {
    const std::size_t before = order.size();
    for (auto file = added_.rbegin(); file != added_.rend(); ++file) {
      for (std::size_t i = file->instances.size(); i-- > 0;) {
        if (file->bases[i] == base) order.push_back(file->instances[i]);
      }
    }
    const bool targeted = order.size() > before;
    if (!targeted || !base_[base].ruleset->disable_on_drop_in) order.push_back(base_[base]);
  }
  return order;
}

std::vector<PrekillHook> RuleProgram::hooks() const {
  std::vector<PrekillHook> hooks;
  for (auto file = added_.rbegin(); file != added_.rend(); ++file) {
    hooks.insert(hooks.end(), file->hooks.begin(), file->hooks.end());
  }
  hooks.insert(hooks.end(), base_hooks_.begin(), base_hooks_.end());
  return hooks;
}

}  // namespace forestall::rulesets
