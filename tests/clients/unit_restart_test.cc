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
    EXPECT_THAT(systemd.requests(), ElementsAre("cache.service fail"));
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

UnitRestartEnd restart_soon(const FakeSystemd& systemd) {
  return restart_unit("cache.service", {.bus_address = systemd.address(),
                                        .timeout = std::chrono::seconds(60),
                                        .transition = std::chrono::milliseconds(200)});
}

// Its start would begin again each time, and a slow unit would never run.
TEST(UnitRestart, AUnitThatStartsOrStopsForLongIsLeftAlone) {
  for (const char* state : {"activating", "deactivating", "reloading"}) {
    const FakeSystemd systemd(
        FakeSystemd::Answer::finishes, "done",
        {.active_state = state, .later_state = "", .later_error = "", .unit = "", .own = ""});
    const UnitRestartEnd end = restart_soon(systemd);
    ASSERT_TRUE(end.failure) << state;
    EXPECT_THAT(end.failure->text(), HasSubstr(state));
    EXPECT_FALSE(end.begun);
    EXPECT_THAT(systemd.requests(), testing::IsEmpty());
  }
}

TEST(UnitRestart, AStartOrReloadIsWaitedFor) {
  for (const char* state : {"activating", "reloading"}) {
    const FakeSystemd systemd(
        FakeSystemd::Answer::finishes, "done",
        {.active_state = state, .later_state = "active", .later_error = "", .unit = "", .own = ""});
    const UnitRestartEnd end = restart(systemd);
    EXPECT_FALSE(end.failure) << end.failure->text();
    EXPECT_TRUE(end.begun);
    EXPECT_THAT(systemd.requests(), ElementsAre("cache.service fail"));
  }
}

// It frees its memory, and may have been stopped on purpose.
TEST(UnitRestart, AStopIsWaitedForAndNotFollowedByAStart) {
  for (const char* later : {"inactive", "failed", "activating"}) {
    const FakeSystemd systemd(FakeSystemd::Answer::finishes, "done",
                              {.active_state = "deactivating",
                               .later_state = later,
                               .later_error = "",
                               .unit = "",
                               .own = ""});
    const UnitRestartEnd end = restart(systemd);
    EXPECT_FALSE(end.failure) << end.failure->text();
    EXPECT_FALSE(end.begun);
    EXPECT_THAT(systemd.requests(), testing::IsEmpty());
  }
}

TEST(UnitRestart, TheStopOfAnAliasedUnitIsSeen) {
  const FakeSystemd systemd(FakeSystemd::Answer::finishes, "done",
                            {.active_state = "deactivating",
                             .later_state = "inactive",
                             .later_error = "",
                             .unit = "mariadb.service",
                             .own = ""});
  const UnitRestartEnd end = restart(systemd);
  EXPECT_FALSE(end.failure) << end.failure->text();
  EXPECT_THAT(systemd.requests(), testing::IsEmpty());
}

TEST(UnitRestart, AStopEndsWithTheUnitUnloadedAndWithNoOtherError) {
  for (const auto& [name, stopped] :
       {std::pair{"org.freedesktop.DBus.Error.UnknownObject", true},
        std::pair{"org.freedesktop.systemd1.NoSuchUnit", true},
        std::pair{"org.freedesktop.DBus.Error.NoReply", false},
        std::pair{"org.freedesktop.DBus.Error.AccessDenied", false}}) {
    const FakeSystemd systemd(FakeSystemd::Answer::finishes, "done",
                              {.active_state = "deactivating",
                               .later_state = "",
                               .later_error = name,
                               .unit = "",
                               .own = ""});
    const UnitRestartEnd end = restart(systemd);
    EXPECT_EQ(!end.failure, stopped) << name;
    EXPECT_FALSE(end.begun);
  }
}

TEST(UnitRestart, AUnitThatDoesNotRunIsStarted) {
  const FakeSystemd systemd(
      FakeSystemd::Answer::finishes, "done",
      {.active_state = "failed", .later_state = "", .later_error = "", .unit = "", .own = ""});
  EXPECT_FALSE(restart(systemd).failure);
}

TEST(UnitRestart, TheAgentsOwnUnitIsNeverRestarted) {
  for (const char* name : {"own.service", "alias.service"}) {
    const FakeSystemd systemd(FakeSystemd::Answer::finishes, "done",
                              {.active_state = "active",
                               .later_state = "",
                               .later_error = "",
                               .unit = "",
                               .own = "own.service"});
    const auto end = restart_unit(name, {.bus_address = systemd.address()});
    ASSERT_TRUE(end.failure) << name;
    EXPECT_THAT(end.failure->text(), HasSubstr("the agent runs in it"));
    EXPECT_FALSE(end.begun);
    EXPECT_THAT(systemd.requests(), testing::IsEmpty());
  }
  const FakeSystemd systemd(FakeSystemd::Answer::finishes, "done",
                            {.active_state = "active",
                             .later_state = "",
                             .later_error = "",
                             .unit = "",
                             .own = "own.service"});
  EXPECT_FALSE(restart(systemd).failure) << "another unit";
}

TEST(UnitRestart, WithoutTheAgentsOwnUnitNoneIsRestarted) {
  const FakeSystemd systemd(FakeSystemd::Answer::finishes, "done",
                            {.active_state = "active",
                             .later_state = "",
                             .later_error = "",
                             .unit = "",
                             .own = std::nullopt});
  const UnitRestartEnd end = restart(systemd);
  ASSERT_TRUE(end.failure);
  EXPECT_THAT(end.failure->text(), HasSubstr("own unit"));
  EXPECT_THAT(systemd.requests(), testing::IsEmpty());
}

TEST(UnitRestart, ASystemdThatDoesNotAnswerEndsTheWait) {
  for (const auto answer :
       {FakeSystemd::Answer::answers_nothing, FakeSystemd::Answer::accepts_nothing}) {
    const FakeSystemd systemd(answer);
    const UnitRestartEnd end = restart(systemd, std::chrono::milliseconds(200));
    EXPECT_EQ(end.failure->code, ETIMEDOUT);
    EXPECT_THAT(end.failure->text(), HasSubstr("no answer"));
    EXPECT_FALSE(end.begun);
  }
}

}  // namespace
}  // namespace forestall::clients
