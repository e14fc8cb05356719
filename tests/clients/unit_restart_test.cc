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

Result<void> restart(const FakeSystemd& systemd, Duration timeout = std::chrono::seconds(60)) {
  return restart_unit("cache.service", {.bus_address = systemd.address(), .timeout = timeout});
}

TEST(UnitRestart, EndsWithTheJob) {
  for (const auto answer : {FakeSystemd::Answer::finishes, FakeSystemd::Answer::finishes_at_once}) {
    const FakeSystemd systemd(answer);
    const auto done = restart(systemd);
    EXPECT_TRUE(done) << done.error().text();
    EXPECT_THAT(systemd.requests(), ElementsAre("cache.service replace"));
  }
}

TEST(UnitRestart, AJobThatFailsIsAnError) {
  const FakeSystemd systemd(FakeSystemd::Answer::finishes, "failed");
  EXPECT_THAT(restart(systemd).error().text(), HasSubstr("result is failed"));
}

TEST(UnitRestart, ARefusalIsNamed) {
  const FakeSystemd systemd(FakeSystemd::Answer::refuses);
  EXPECT_THAT(restart(systemd).error().text(), HasSubstr("NoSuchUnit: Unit cache.service not"));
}

TEST(UnitRestart, IsBoundedInTime) {
  const FakeSystemd systemd(FakeSystemd::Answer::never_finishes);
  EXPECT_EQ(restart(systemd, std::chrono::milliseconds(200)).error().code, ETIMEDOUT);
}

TEST(UnitRestart, CanBeCancelled) {
  const FakeSystemd systemd(FakeSystemd::Answer::never_finishes);
  const UniqueFd cancelled(eventfd(1, EFD_CLOEXEC));
  const auto done = restart_unit("cache.service",
                                 {.bus_address = systemd.address(), .cancelled = cancelled.get()});
  EXPECT_EQ(done.error().code, ECANCELED);
}

TEST(UnitRestart, ALostConnectionIsAnError) {
  const FakeSystemd systemd(FakeSystemd::Answer::closes);
  const auto done = restart(systemd);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().code, ETIMEDOUT);
}

TEST(UnitRestart, WithoutABusTheErrorNamesIt) {
  const auto done = restart_unit("cache.service", {.bus_address = "unix:path=/nonexistent/bus"});
  EXPECT_THAT(done.error().text(), HasSubstr("/nonexistent/bus"));
}

}  // namespace
}  // namespace forestall::clients
