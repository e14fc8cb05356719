// SPDX-License-Identifier: Apache-2.0
#include "clients/unit_restart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "support/fake_systemd.h"

namespace forestall::clients {
namespace {

using test::FakeSystemd;
using testing::ElementsAre;
using testing::HasSubstr;

UnitRestartEnd restart(const FakeSystemd& systemd, Duration timeout = std::chrono::seconds(60)) {
  return restart_unit("cache.service", {.bus_address = systemd.address(), .timeout = timeout});
}

TEST(UnitRestart, EndsWithTheJob) {
  for (const auto answer : {FakeSystemd::Answer::finishes, FakeSystemd::Answer::finishes_at_once}) {
    const FakeSystemd systemd(answer);
    const UnitRestartEnd end = restart(systemd);
    EXPECT_FALSE(end.failure) << end.failure->text();
    EXPECT_TRUE(end.begun);
    EXPECT_THAT(systemd.requests(), ElementsAre("cache.service replace"));
  }
}

TEST(UnitRestart, AJobThatFailsIsAnError) {
  const FakeSystemd systemd(FakeSystemd::Answer::finishes, "failed");
  const UnitRestartEnd end = restart(systemd);
  EXPECT_THAT(end.failure->text(), HasSubstr("result is failed"));
  EXPECT_TRUE(end.begun);
}

TEST(UnitRestart, ARefusalIsNamed) {
  const FakeSystemd systemd(FakeSystemd::Answer::refuses);
  const UnitRestartEnd end = restart(systemd);
  EXPECT_THAT(end.failure->text(), HasSubstr("NoSuchUnit: Unit cache.service not"));
  EXPECT_FALSE(end.begun);
}

TEST(UnitRestart, IsBoundedInTime) {
  const FakeSystemd systemd(FakeSystemd::Answer::never_finishes);
  const UnitRestartEnd end = restart(systemd, std::chrono::milliseconds(200));
  EXPECT_EQ(end.failure->code, ETIMEDOUT);
  EXPECT_TRUE(end.begun);
}

TEST(UnitRestart, CanBeCancelled) {
  const FakeSystemd systemd(FakeSystemd::Answer::never_finishes);
  const UniqueFd cancelled(eventfd(1, EFD_CLOEXEC));
  const auto end = restart_unit("cache.service",
                                {.bus_address = systemd.address(), .cancelled = cancelled.get()});
  EXPECT_EQ(end.failure->code, ECANCELED);
}

TEST(UnitRestart, ALostConnectionIsAnError) {
  const FakeSystemd systemd(FakeSystemd::Answer::closes);
  const UnitRestartEnd end = restart(systemd);
  ASSERT_TRUE(end.failure);
  EXPECT_NE(end.failure->code, ETIMEDOUT);
  EXPECT_TRUE(end.begun) << "systemd may have the request";
}

TEST(UnitRestart, WithoutABusTheErrorNamesIt) {
  const auto end = restart_unit("cache.service", {.bus_address = "unix:path=/nonexistent/bus"});
  EXPECT_THAT(end.failure->text(), HasSubstr("/nonexistent/bus"));
  EXPECT_FALSE(end.begun);
}

}  // namespace
}  // namespace forestall::clients
