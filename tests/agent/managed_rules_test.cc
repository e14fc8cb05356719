// SPDX-License-Identifier: Apache-2.0
// A configuration that cannot be prepared changes nothing.
#include "daemon/managed_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/dbus_managed_oom.h"
#include "support/fake_unit_bus.h"

namespace forestall::daemon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Config with_ruleset(const std::string& name) {
  rulesets::Ruleset ruleset;
  ruleset.name = name;
  Config config;
  config.rules = std::vector{ruleset};
  return config;
}

std::vector<std::string> names(const Config& config) {
  std::vector<std::string> found;
  if (!config.rules) return found;
  for (const rulesets::Ruleset& each : *config.rules) found.push_back(each.name);
  return found;
}

class ManagedRulesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    using std::chrono::milliseconds;
    test::FakeUnit unit;
    unit.cgroup = "/a";
    unit.pressure = "kill";
    bus_.set("a.service", unit);
    auto watch = ManagedOomWatch::start(
        log_, clock_, std::make_unique<DbusManagedOom>(bus_.address()),
        {milliseconds(20), milliseconds(1), milliseconds(1), std::chrono::hours(1)});
    ASSERT_TRUE(watch);
    watch_ = std::move(*watch);
    watch_->follow(rulesets::OomdConf());
    rules_.emplace(watch_.get(), in_force_.rules, [this](const Config&) {
      return refusal_ ? Result<void>(*refusal_) : Result<void>();
    });
  }
  Result<bool> take_next() {
    pollfd fd{watch_->fd(), POLLIN, 0};
    ::poll(&fd, 1, -1);
    return rules_->take(in_force_);
  }

  SystemClock clock_;
  exports::Log log_{exports::Log::Stream::standard_error, true, exports::LogLevel::error};
  test::FakeUnitBus bus_{{}};
  std::unique_ptr<ManagedOomWatch> watch_;
  std::optional<Error> refusal_;
  Config in_force_ = with_ruleset("configured");
  std::optional<ManagedRules> rules_;
};

TEST_F(ManagedRulesTest, FollowTheConfigured) {
  const auto taken = take_next();
  ASSERT_TRUE(taken);
  EXPECT_TRUE(*taken);
  EXPECT_THAT(names(in_force_), ElementsAre("configured", "ManagedOOMMemoryPressure /a"));
  intake::LoadedConfig next;
  next.config = with_ruleset("new");
  next.managed_oom = rulesets::OomdConf();
  ASSERT_TRUE(rules_->reload(next));
  EXPECT_THAT(names(next.config), ElementsAre("new", "ManagedOOMMemoryPressure /a"));
  next.config = with_ruleset("new");
  next.managed_oom.reset();
  ASSERT_TRUE(rules_->reload(next));
  EXPECT_THAT(names(next.config), ElementsAre("new")) << "managedOOM is off";
  EXPECT_THAT(watch_->in_force(), IsEmpty());
}

TEST_F(ManagedRulesTest, AReloadThatFailsChangesNothing) {
  refusal_ = Error{EAGAIN, "thread"};
  intake::LoadedConfig next;
  next.config = with_ruleset("new");
  EXPECT_FALSE(rules_->reload(next));
  EXPECT_TRUE(watch_->state()) << "managedOOM is still on";
  refusal_.reset();
  ASSERT_TRUE(take_next());
  EXPECT_THAT(names(in_force_), ElementsAre("configured", "ManagedOOMMemoryPressure /a"));
}

TEST_F(ManagedRulesTest, WhatCannotBePreparedIsTakenLater) {
  refusal_ = Error{EAGAIN, "thread"};
  EXPECT_FALSE(take_next());
  EXPECT_THAT(names(in_force_), ElementsAre("configured"));
  refusal_.reset();
  const auto taken = take_next();
  ASSERT_TRUE(taken);
  EXPECT_TRUE(*taken);
  EXPECT_THAT(names(in_force_), ElementsAre("configured", "ManagedOOMMemoryPressure /a"));
}

}  // namespace
}  // namespace forestall::daemon
