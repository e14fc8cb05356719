// SPDX-License-Identifier: Apache-2.0
// What the agent reports on a guard in the descriptor store of a service manager.
#include "daemon/kept_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "clients/descriptor_store_limit.h"
#include "support/child.h"
#include "support/fake_systemd.h"

namespace forestall::daemon {
namespace {

using clients::DescriptorStoreLimit;
using clients::read_descriptor_store_limit;
using test::FakeSystemd;
using test::FakeUnits;
using ::testing::HasSubstr;
using LimitAnswer = Result<std::optional<DescriptorStoreLimit>>;

FakeUnits agent_with(std::optional<std::uint32_t> max) {
  FakeUnits units;
  units.own = "forestall.service";
  units.store_max = max;
  return units;
}

GuardKeepingState state_of(const LimitAnswer& answer) {
  return judge_descriptor_store(answer);
}

LimitAnswer limit(std::uint32_t max, std::uint32_t version) {
  return std::optional(DescriptorStoreLimit{"a.service", max, version});
}

TEST(KeptGuard, AStoreMustHaveRoomForTwoGuardsWithOneTurn) {
  EXPECT_EQ(state_of(limit(16, 252)).keeping, GuardKeeping::kept);
  EXPECT_EQ(state_of(limit(11, 252)).keeping, GuardKeeping::kept);
  EXPECT_EQ(state_of(limit(10, 252)).keeping, GuardKeeping::not_kept);
  EXPECT_THAT(state_of(limit(0, 252)).reason, HasSubstr("a.service has FileDescriptorStoreMax=0"));
}

TEST(KeptGuard, AnOldSystemdKeepsNoGuard) {
  EXPECT_EQ(state_of(limit(16, 246)).keeping, GuardKeeping::kept);
  EXPECT_EQ(state_of(limit(16, 245)).keeping, GuardKeeping::not_kept);
  EXPECT_THAT(state_of(limit(16, 245)).reason, HasSubstr("systemd 245 cannot keep a guard"));
}

TEST(KeptGuard, WithoutAnAnswerItIsUnknown) {
  for (const LimitAnswer& answer : {LimitAnswer(error("no bus")), LimitAnswer(std::nullopt)}) {
    EXPECT_EQ(state_of(answer).keeping, GuardKeeping::unknown);
  }
  EXPECT_THAT(state_of(error("no bus")).reason, HasSubstr("no bus"));
}

TEST(KeptGuard, TheLimitIsReadOfTheOwnServiceOrOfANamedOne) {
  const FakeSystemd systemd(FakeSystemd::Answer::refuses, "done", agent_with(7));
  for (const char* unit : {"", "forestall.service"}) {
    const auto read = read_descriptor_store_limit(systemd.address(), unit);
    ASSERT_TRUE(read.ok() && *read) << unit;
    EXPECT_EQ((*read)->unit, "forestall.service");
    EXPECT_EQ((*read)->max, 7U);
    EXPECT_EQ((*read)->version, 252U);
  }
}

TEST(KeptGuard, AScopeAndAUnitThatIsNotInstalledHaveNoLimit) {
  FakeUnits units = agent_with(16);
  units.own = "session-1.scope";
  units.load_state = "not-found";
  const FakeSystemd systemd(FakeSystemd::Answer::refuses, "done", units);
  const auto own = read_descriptor_store_limit(systemd.address(), "");
  EXPECT_TRUE(own.ok() && !*own);
  const auto other = read_descriptor_store_limit(systemd.address(), "forestall.service");
  EXPECT_TRUE(other.ok() && !*other);
}

TEST(KeptGuard, ASystemdWithoutTheSettingIsAnError) {
  const FakeSystemd systemd(FakeSystemd::Answer::refuses, "done", agent_with(std::nullopt));
  const auto read = read_descriptor_store_limit(systemd.address(), "");
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().text(), HasSubstr("FileDescriptorStoreMax: no such property"));
}

// Each reading is a moment later.
class PassingClock final : public Clock {
 public:
  explicit PassingClock(Duration step) : step_(step) {}
  [[nodiscard]] MonotonicTime now() const override { return now_ += step_; }

 private:
  const Duration step_;
  mutable MonotonicTime now_;
};

// Five calls of two seconds each would delay the agent's end by ten.
TEST(KeptGuard, AllCallsHaveOneDeadline) {
  const FakeSystemd systemd(FakeSystemd::Answer::refuses, "done", agent_with(16));
  const auto read = [&](Duration step) {
    return read_descriptor_store_limit(systemd.address(), "", clients::kDescriptorStoreTimeout,
                                       PassingClock(step));
  };
  EXPECT_TRUE(read(std::chrono::milliseconds(100)).ok());
  const auto late = read(std::chrono::milliseconds(600));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, ETIMEDOUT);
}

TEST(KeptGuard, AThreadReadsTheLimit) {
  exports::Log log(exports::Log::Stream::standard_error, true, exports::LogLevel::error);
  const FakeSystemd systemd(FakeSystemd::Answer::refuses, "done", agent_with(0));
  const auto guard = KeptGuard::of_systemd(log, systemd.address());
  const MonotonicTime give_up = SystemClock().now() + test::kPatience;
  while (guard->state().keeping == GuardKeeping::unknown && SystemClock().now() < give_up) {
    ::sched_yield();
  }
  EXPECT_EQ(guard->state().keeping, GuardKeeping::not_kept);
  EXPECT_THAT(guard->state().reason, HasSubstr("set it to 16"));
  EXPECT_TRUE(guard->refused());
}

// Ends at once, although it would try again.
TEST(KeptGuard, ASystemdThatIsNotThereDelaysNoEnd) {
  exports::Log log(exports::Log::Stream::standard_error, true, exports::LogLevel::error);
  const auto guard = KeptGuard::of_systemd(log, "unix:path=/nowhere/bus", std::chrono::hours(1));
  const MonotonicTime give_up = SystemClock().now() + test::kPatience;
  while (!guard->state().reason.starts_with("systemd does not confirm") &&
         SystemClock().now() < give_up) {
    ::sched_yield();
  }
  EXPECT_EQ(guard->state().keeping, GuardKeeping::unknown);
  EXPECT_THAT(guard->state().reason, HasSubstr("/nowhere/bus"));
  EXPECT_FALSE(guard->refused()) << "unknown";
}

}  // namespace
}  // namespace forestall::daemon
