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
constexpr auto kThrottle = RuleSetting::Kind::throttle;
constexpr auto kFreeze = RuleSetting::Kind::freeze;

MonotonicTime at(int seconds) {
  return MonotonicTime(std::chrono::seconds(seconds));
}

// Two rulesets of a log line and an action.
std::vector<Ruleset> two_of(const PluginArguments& first, const PluginArguments& second) {
  std::vector<Ruleset> rulesets(2);
  rulesets[0].actions = {{"log", LogAction{}}, {"action", first}};
  rulesets[1].actions = {{"log", LogAction{}}, {"action", second}};
  return rulesets;
}

// The action of ruleset `id` holds `written`.
void holds(RuleState& state, std::uint64_t id, std::int64_t written, int until = 5) {
  std::vector<PluginState>& actions = state.rulesets[id].actions;
  actions.resize(2);
  actions[1].held[kCgroup.inode] = {"/a", kNoLimit, written, std::chrono::seconds(until)};
}

TEST(HeldSettings, AThrottleThatEndsWhileALowerOneLastsIsNotListed) {
  RuleState state;
  holds(state, 1, 900);
  holds(state, 2, 400);
  EXPECT_THAT(held_settings(two_of(Throttle(), Throttle()), state),
              ElementsAre(RuleSetting{kThrottle, kCgroup, "/a", Bytes{400}, at(5)}));
}

// Else the end of the lower one would restore the value before both.
TEST(HeldSettings, AHigherThrottleThatLastsLongerFollowsTheLowerOne) {
  RuleState state;
  holds(state, 1, 900, 9);
  holds(state, 2, 400, 7);
  EXPECT_THAT(held_settings(two_of(Throttle(), Throttle()), state),
              ElementsAre(RuleSetting{kThrottle, kCgroup, "/a", Bytes{400}, at(7)},
                          RuleSetting{kThrottle, kCgroup, "/a", Bytes{900}, at(9)}));
}

TEST(HeldSettings, EqualOnesHaveTheLatestTime) {
  RuleState state;
  holds(state, 1, 1, 9);
  holds(state, 2, 1, 7);
  EXPECT_THAT(held_settings(two_of(Freeze(), Freeze()), state),
              ElementsAre(RuleSetting{kFreeze, kCgroup, "/a", Bytes{0}, at(9)}));
}

TEST(HeldSettings, AThrottledCgroupCanAlsoBeFrozen) {
  RuleState state;
  holds(state, 1, 900);
  holds(state, 2, 1);
  EXPECT_THAT(held_settings(two_of(Throttle(), Freeze()), state),
              ElementsAre(RuleSetting{kThrottle, kCgroup, "/a", Bytes{900}, at(5)},
                          RuleSetting{kFreeze, kCgroup, "/a", Bytes{0}, at(5)}));
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
              ElementsAre(RuleSetting{kFreeze, kCgroup, "/b", Bytes{0}, at(5)}));
}

}  // namespace
}  // namespace forestall::rulesets
