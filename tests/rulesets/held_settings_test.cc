// SPDX-License-Identifier: Apache-2.0
// What the agent has to set for throttles and freezes of rulesets.
#include "rulesets/held_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/rule_observation.h"

namespace forestall::rulesets {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr CgroupId kCgroup{7};

// Two rulesets of a log line and an action.
std::vector<Ruleset> two_of(const PluginArguments& first, const PluginArguments& second) {
  std::vector<Ruleset> rulesets(2);
  rulesets[0].actions = {{"log", LogAction{}}, {"action", first}};
  rulesets[1].actions = {{"log", LogAction{}}, {"action", second}};
  return rulesets;
}

// The action of ruleset `id` holds `written`.
void holds(RuleState& state, std::uint64_t id, std::int64_t written) {
  std::vector<PluginState>& actions = state.rulesets[id].actions;
  actions.resize(2);
  actions[1].held[kCgroup.inode] = {"/a", kNoLimit, written, {}};
}

TEST(HeldSettings, TheLowestOfSeveralThrottlesOfACgroupIsWanted) {
  RuleState state;
  holds(state, 1, 900);
  holds(state, 2, 400);
  EXPECT_THAT(held_settings(two_of(Throttle(), Throttle()), state),
              ElementsAre(RuleSetting{RuleSetting::Kind::throttle, kCgroup, "/a", Bytes{400}}));
}

TEST(HeldSettings, AThrottledCgroupCanAlsoBeFrozen) {
  RuleState state;
  holds(state, 1, 900);
  holds(state, 2, 1);
  EXPECT_THAT(held_settings(two_of(Throttle(), Freeze()), state),
              ElementsAre(RuleSetting{RuleSetting::Kind::throttle, kCgroup, "/a", Bytes{900}},
                          RuleSetting{RuleSetting::Kind::freeze, kCgroup, "/a", Bytes{0}}));
}

TEST(HeldSettings, AStateOfOtherRulesetsHoldsNothing) {
  RuleState state;
  holds(state, 9, 900);
  EXPECT_THAT(held_settings(two_of(Throttle(), Freeze()), state), IsEmpty());
  EXPECT_THAT(held_settings({}, state), IsEmpty());
}

TEST(HeldSettings, WhatIsForgottenIsNotWanted) {
  RuleState state;
  holds(state, 1, 900);
  holds(state, 2, 1);
  state.rulesets[2].actions[1].held[kCgroup.inode].path = "/b";
  forget_held(state, [](const HeldSetting& held) { return held.path == "/a"; });
  EXPECT_THAT(held_settings(two_of(Throttle(), Freeze()), state),
              ElementsAre(RuleSetting{RuleSetting::Kind::freeze, kCgroup, "/b", Bytes{0}}));
}

}  // namespace
}  // namespace forestall::rulesets
