// SPDX-License-Identifier: Apache-2.0
// The formula against figures computed by hand, and against the same arithmetic by subtraction. C's
// division truncates toward zero, which an imitation could get wrong.
#include "policy/badness.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/policy/dice.h"
#include "tests/policy/oom_world.h"

namespace forestall::policy {
namespace {

TEST(BadnessTest, AddsMemoryAndAdjustment) {
  ProcessSample sample = process(10, 0);
  sample.memory = {.file = 1, .anon = 20, .shmem = 300, .swap = 4000, .page_tables = 50000};
  EXPECT_EQ(badness(sample, 2'000'000), 54321);
  struct Case {
    std::int32_t adjustment;
    Pages total;
    Pages points;
  };
  const std::vector<Case> cases{
      {1, 2'000'000, 54321 + 2000},
      {1000, 2'000'000, 54321 + 2'000'000},
      {-1, 2'000'000, 54321 - 2000},
      {-999, 2'000'000, 54321 - 1'998'000},
      {500, 1999, 54321 + 500},  // totalpages / 1000 is rounded first
      {-998, 999, 54321},        // and is nothing below a thousand
      {1000, 1, 54321},          // mem_cgroup_get_max of 0 counts as 1
      {1000, 1'999'999, 54321 + 1'999'000},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(badness(adjusted(sample, one.adjustment), one.total), one.points)
        << one.adjustment << " of " << one.total;
  }
}

TEST(BadnessTest, UnkillableProcessesHaveNoPoints) {
  for (const Unkillable reason :
       {Unkillable::init, Unkillable::kernel_thread, Unkillable::no_memory, Unkillable::adjusted,
        Unkillable::reaped, Unkillable::in_vfork}) {
    EXPECT_EQ(badness(unkillable(process(10, 100), reason), 1000), std::nullopt)
        << to_string(reason);
  }
  ProcessSample spared = process(10, 100);
  spared.oom_score_adj = kOomScoreAdjMin;
  EXPECT_EQ(badness(spared, 1000), std::nullopt) << "even where the scan gave no reason";
  EXPECT_EQ(badness(process(10, 0), 1000), 0) << "hardly any memory is not unkillable";
}

TEST(OomScoreTest, KnownFigures) {
  struct Case {
    std::string what;
    std::optional<Pages> points;
    Pages total;
    std::int64_t score;
  };
  const std::vector<Case> cases{
      {"unkillable", {}, 1'000'000, 0},
      {"nothing", 0, 1'000'000, 666},
      {"everything", 1'000'000, 1'000'000, 1333},
      {"everything, adjusted by 1000", 2'000'000, 1'000'000, 2000},
      {"half", 500'000, 1'000'000, 1000},
      {"just under a step", 999, 1'000'000, 666},
      {"one step, too small to show", 1000, 1'000'000, 667},
      {"adjusted by -999", -999'000, 1'000'000, 0},
      {"adjusted by -998", -998'000, 1'000'000, 1},
      {"below zero, toward zero", -1, 1'000'000, 666},
      {"a whole step below zero", -1000, 1'000'000, 666},
      {"two below zero", -2000, 1'000'000, 665},
      {"total unknown", 0, 0, 666},
  };
  for (const Case& one : cases) EXPECT_EQ(oom_score(one.points, one.total), one.score) << one.what;
}

// `amount` divided by `by` through subtraction, toward zero.
std::int64_t times(std::int64_t amount, std::int64_t by) {
  std::int64_t count = 0;
  std::int64_t left = std::abs(amount);
  // Subtracts whole blocks, because single steps would take minutes.
  for (std::int64_t block = std::int64_t{1} << 40; block > 0; block >>= 1) {
    while (left / by >= block && left >= block * by) {
      left -= block * by;
      count += block;
    }
  }
  return amount < 0 ? -count : count;
}

TEST(OomScoreTest, EqualsTheLongWay) {
  std::size_t negative = 0;
  for (std::uint32_t seed = 0; seed < 50'000; ++seed) {
    Dice dice(seed);
    const Pages total = 1 + dice.below(dice.one_in(2) ? 5'000 : 30'000'000);
    ProcessSample sample = process(10, 0);
    sample.memory = {.file = dice.below(total + 1),
                     .anon = dice.below(total + 1),
                     .shmem = dice.below(50),
                     .swap = dice.below(50),
                     .page_tables = dice.below(50)};
    if (dice.one_in(2)) sample.memory = {};
    sample.oom_score_adj = static_cast<std::int32_t>(dice.below(2000) - 999);
    Pages points = 0;
    for (const Pages part : {sample.memory.file, sample.memory.anon, sample.memory.shmem,
                             sample.memory.swap, sample.memory.page_tables}) {
      points += part;
    }
    const Pages unit = times(total, 1000);
    for (std::int32_t i = 0; i < std::abs(sample.oom_score_adj); ++i) {
      points += sample.oom_score_adj < 0 ? -unit : unit;
    }
    negative += points < 0 ? 1 : 0;
    ASSERT_EQ(badness(sample, total), points) << seed;
    const std::int64_t scaled = 1000 + times(points * 1000, total);
    ASSERT_EQ(oom_score(points, total), times(scaled + scaled, 3)) << seed;
    ASSERT_GE(oom_score(points, total), 0) << seed;
  }
  EXPECT_GT(negative, 5'000U);
}

}  // namespace
}  // namespace forestall::policy
