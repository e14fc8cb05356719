// SPDX-License-Identifier: Apache-2.0
// The rulesets in force and their order: those of the configuration, and the drop-ins that stand
// before them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/ruleset.h"

namespace forestall::rulesets {

// A ruleset that is evaluated. Its state belongs to the id, which is never used again.
struct RulesetInstance {
  std::uint64_t id = 0;
  std::shared_ptr<const Ruleset> ruleset;
  std::string drop_in;  // the file; empty: of the configuration itself
};

// A ruleset of a drop-in, merged with the one it names.
struct DropInRuleset {
  std::size_t base = 0;  // index of the configuration's ruleset
  Ruleset merged;
};

struct DropInFile {
  std::string file;
  std::vector<DropInRuleset> rulesets;
  std::vector<PrekillHook> hooks;
};

class RuleProgram {
 public:
  RuleProgram() = default;
  RuleProgram(std::vector<Ruleset> rulesets, std::vector<PrekillHook> hooks);

  // The file becomes the newest one, in place of an earlier one of this name.
  // REQUIRES: each `base` is below base().size().
  void add(DropInFile drop_in);
  void remove(std::string_view file);

  // In the order of evaluation: for each ruleset of the configuration, its drop-ins, the newest
  // first, then itself, unless a drop-in disables it.
  [[nodiscard]] std::vector<RulesetInstance> order() const;
  // In the order in which they are compared with a victim.
  [[nodiscard]] std::vector<PrekillHook> hooks() const;
  // Of the configuration, in its order.
  [[nodiscard]] const std::vector<RulesetInstance>& base() const { return base_; }

 private:
  struct Added {
    std::string file;
    std::vector<std::size_t> bases;  // of each instance
    std::vector<RulesetInstance> instances;
    std::vector<PrekillHook> hooks;
  };

  std::vector<RulesetInstance> base_;
  std::vector<PrekillHook> base_hooks_;
  std::vector<Added> added_;  // the oldest first
  std::uint64_t next_id_ = 1;
};

}  // namespace forestall::rulesets
