// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the experiment, and what it says when it cannot be made. That it decides, and
// rightly, is tested on real kernels (tests/integration/task_scan_test.cc).
#include "kernel/rss_calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <random>

namespace forestall::kernel {
namespace {

using testing::HasSubstr;

constexpr Duration kPatience = std::chrono::seconds(60);

std::int64_t score_with(Pages pages, std::int64_t adj, Pages total) {
  return score_of(pages + adj * (total / 1000), total);
}

TEST(ScoreStep, IsWhereTheScoreRises) {
  std::mt19937_64 dice(4);
  for (int i = 0; i < 2000; ++i) {
    const auto total = static_cast<Pages>(1000 + dice() % (1ULL << (10 + dice() % 24)));
    const auto from = static_cast<Pages>(dice() % 20000);
    const auto least = static_cast<std::int32_t>(dice() % 1000);
    const auto step = next_score_step(from, least, total);
    ASSERT_TRUE(step) << total;
    EXPECT_GE(step->pages, from);
    EXPECT_GE(step->oom_score_adj, least);
    EXPECT_LE(step->oom_score_adj, 999);
    EXPECT_EQ(score_with(step->pages, step->oom_score_adj, total),
              score_with(step->pages - 1, step->oom_score_adj, total) + 1)
        << total << ' ' << from << ' ' << least;
  }
}

TEST(ScoreStep, IsTheNearest) {
  // With a total of 1,234,567 pages, tried one by one.
  constexpr Pages kTotal = 1'234'567;
  for (const Pages from : {1, 500, 1234, 5000}) {
    const auto step = next_score_step(from, 0, kTotal);
    ASSERT_TRUE(step);
    for (Pages pages = from; pages < step->pages; ++pages) {
      for (std::int64_t adj = 0; adj < 1000; ++adj) {
        ASSERT_EQ(score_with(pages, adj, kTotal), score_with(pages - 1, adj, kTotal)) << pages;
      }
    }
  }
}

TEST(ScoreStep, NeedsAThousandPages) {
  EXPECT_FALSE(next_score_step(10, 0, 999));
}

TEST(Score, IsTheKernelsTransformation) {
  EXPECT_EQ(score_of(0, 1000), 666);
  EXPECT_EQ(score_of(1000, 1000), 1333);
  EXPECT_EQ(score_of(-1000, 1000), 0);
  EXPECT_EQ(score_of(1500, 1'000'000), 667);
}

TEST(Calibration, SumsThatCannotBeReadProveNothing) {
  const Calibration calibration = calibrate_rss(
      [](pid_t) {
        abi_task task{};
        task.flags = ABI_TASK_NO_SUM;
        return Result<abi_task>(task);
      },
      kPatience);
  EXPECT_FALSE(calibration.proven);
  EXPECT_EQ(calibration.counting, RssCounting::counted);
  EXPECT_THAT(calibration.evidence, HasSubstr("cannot be read"));
}

TEST(Calibration, AtomicsLeaveOneWay) {
  const Calibration calibration = calibrate_rss(
      [](pid_t) {
        abi_task task{};
        task.flags = ABI_TASK_ATOMIC;
        return Result<abi_task>(task);
      },
      kPatience);
  EXPECT_TRUE(calibration.proven);
  EXPECT_EQ(calibration.counting, RssCounting::counted);
}

TEST(Calibration, AnErrorOfTheReaderIsTheEvidence) {
  const Calibration calibration = calibrate_rss(
      [](pid_t) {
        return Result<abi_task>(Error{ESRCH, "reading a child"});
      },
      kPatience);
  EXPECT_FALSE(calibration.proven);
  EXPECT_THAT(calibration.evidence, HasSubstr("reading a child"));
}

TEST(Calibration, FiguresThatDoNotMoveEndItAndTheChildIsReaped) {
  const Calibration calibration = calibrate_rss(
      [](pid_t) {
        abi_task task{};
        task.counted[ABI_TASK_ANON] = task.summed[ABI_TASK_ANON] = 100;
        return Result<abi_task>(task);
      },
      kPatience);
  EXPECT_FALSE(calibration.proven);
  EXPECT_EQ(calibration.counting, RssCounting::summed);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace forestall::kernel
