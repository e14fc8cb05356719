// SPDX-License-Identifier: Apache-2.0
#include "actuators/unit_restarter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "support/fake_systemd.h"
#include "support/file_changes.h"

namespace forestall::actuators {
namespace {

using test::FakeSystemd;
using testing::ElementsAre;

std::vector<UnitRestartResult> results_of(UnitRestarterThread& restarter, std::size_t count) {
  const test::TempTree folder;
  std::vector<UnitRestartResult> results;
  static_cast<void>(test::wait_for_files(folder.path(), -1, [&] {
    for (auto& each : restarter.take_results()) results.push_back(std::move(each));
    return results.size() >= count;
  }));
  return results;
}

TEST(UnitRestarter, RestartsInTurnAndReportsEach) {
  const FakeSystemd systemd(FakeSystemd::Answer::finishes, "failed");
  UnitRestarterThread restarter(systemd.address());
  ASSERT_TRUE(restarter.start());
  restarter.restart("a.service");
  restarter.restart("b.service");
  const auto results = results_of(restarter, 2);
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].unit, "a.service");
  EXPECT_TRUE(results[0].failure);
  EXPECT_TRUE(results[0].begun);
  EXPECT_GT(results[0].took, Duration{0});
  EXPECT_THAT(systemd.requests(), ElementsAre("a.service fail", "b.service fail"));
}

// Else an observation would list it as under way, and its ruleset wait, until it is forgotten.
TEST(UnitRestarter, ARequestRightAfterTheResultIsNotLost) {
  const FakeSystemd systemd(FakeSystemd::Answer::finishes);
  UnitRestarterThread restarter(systemd.address());
  ASSERT_TRUE(restarter.start());
  constexpr std::size_t kRestarts = 300;
  for (std::size_t i = 0; i < kRestarts; ++i) {
    restarter.restart("a.service");
    const MonotonicTime begun = SystemClock().now();
    while (restarter.take_results().empty()) {
      ASSERT_LT(SystemClock().now() - begun, std::chrono::seconds(20)) << "restart " << i;
    }
  }
  EXPECT_EQ(systemd.requests().size(), kRestarts);
}

// SIGTERM must not wait for a unit that does not stop.
TEST(UnitRestarter, TheDestructorDoesNotWaitForARestart) {
  const FakeSystemd systemd(FakeSystemd::Answer::never_finishes);
  const MonotonicTime begun = SystemClock().now();
  {
    UnitRestarterThread restarter(systemd.address());
    ASSERT_TRUE(restarter.start());
    restarter.restart("a.service");
    systemd.wait_for_request();
  }
  EXPECT_LT(SystemClock().now() - begun, std::chrono::seconds(30));
}

TEST(UnitRestarter, OneThatIsUnderWayOrWaitsIsNotRequestedAgain) {
  const FakeSystemd systemd(FakeSystemd::Answer::never_finishes);
  UnitRestarterThread restarter(systemd.address());
  ASSERT_TRUE(restarter.start());
  restarter.restart("a.service");
  systemd.wait_for_request();
  for (std::size_t i = 0; i < UnitRestarterThread::kWaitingMax; ++i) {
    restarter.restart("a.service");
    restarter.restart("b.service");
  }
  EXPECT_EQ(restarter.take_results().size(), 0U);
  for (std::size_t i = 1; i < UnitRestarterThread::kWaitingMax; ++i) {
    restarter.restart(std::to_string(i) + ".service");
  }
  restarter.restart("last.service");
  const auto refused = restarter.take_results();
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].unit, "last.service");
  EXPECT_EQ(refused[0].failure->code, EBUSY);
  restarter.cancel();
  const auto dropped = restarter.take_results();
  ASSERT_EQ(dropped.size(), UnitRestarterThread::kWaitingMax);
  EXPECT_EQ(dropped[0].unit, "b.service");
  EXPECT_EQ(dropped[0].failure->code, ECANCELED);
  restarter.restart("last.service");
  EXPECT_EQ(restarter.take_results().size(), 0U) << "there is room again";
}

// Else a healthy unit would be restarted when the pressure is over.
TEST(UnitRestarter, OneThatWaitedTooLongIsNotBegun) {
  const FakeSystemd systemd(FakeSystemd::Answer::finishes);
  UnitRestarterThread restarter(systemd.address(), /*wait_max=*/Duration{-1});
  ASSERT_TRUE(restarter.start());
  restarter.restart("a.service");
  const auto results = results_of(restarter, 1);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].failure->code, ESTALE);
  EXPECT_FALSE(results[0].begun);
  EXPECT_THAT(systemd.requests(), testing::IsEmpty());
}

TEST(UnitRestarter, WithoutSystemdThereIsNothingToStart) {
  EXPECT_EQ(UnitRestarter().start().error().code, ENOTSUP);
}

}  // namespace
}  // namespace forestall::actuators
