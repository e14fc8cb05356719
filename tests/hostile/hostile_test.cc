// SPDX-License-Identifier: Apache-2.0
// The short, deterministic part of the hostile campaign: each offence and each trick alone. The
// invariant: no protected process dies, no process outside the victim that the record names dies,
// and the offender is dead or a record gives the reason.
#include <gtest/gtest.h>

#include <algorithm>

#include "hostile/campaign.h"

namespace forestall::test {
namespace {

void expect_no_problem(Arena& arena, const RoundPlan& plan) {
  const RoundResult result = arena.play(plan);
  for (const Problem& each : result.problems) {
    ADD_FAILURE() << plan.text() << ": " << each.kind << ": " << printable(each.detail);
  }
  if (!result.problems.empty()) {
    ADD_FAILURE() << "log of the agent:\n" << printable(arena.agent_log());
  }
}

std::string test_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class HostileOffence : public testing::TestWithParam<int> {};

TEST_P(HostileOffence, EndsOnlyTheOffender) {
  Arena arena(AgentMode::full);
  expect_no_problem(arena, {static_cast<Offence>(GetParam()), {}, 1});
}

INSTANTIATE_TEST_SUITE_P(Each, HostileOffence, testing::Range(0, kOffences), [](const auto& each) {
  return test_name(name_of(static_cast<Offence>(each.param)));
});

class HostileTrick : public testing::TestWithParam<int> {};

TEST_P(HostileTrick, DoesNotMisleadTheKill) {
  const auto trick = static_cast<Trick>(GetParam());
  if (const auto missing = missing_for(trick)) GTEST_SKIP() << "not applicable: " << *missing;
  Arena arena(AgentMode::files);
  const RoundPlan plan{Offence::anon, {trick}, 1};
  expect_no_problem(arena, plan);
}

INSTANTIATE_TEST_SUITE_P(Each, HostileTrick, testing::Range(0, kTricks), [](const auto& each) {
  return test_name(name_of(static_cast<Trick>(each.param)));
});

TEST(HostileCampaign, RoundsAreDeterminedByTheirSeed) {
  for (std::uint64_t round = 0; round < 100; ++round) {
    EXPECT_EQ(plan_round(7, round).text(), plan_round(7, round).text());
    EXPECT_EQ(plan_round(7, round).seed, plan_round(7, round).seed);
  }
  EXPECT_NE(plan_round(7, 1).seed, plan_round(8, 1).seed);
}

}  // namespace
}  // namespace forestall::test
