// SPDX-License-Identifier: Apache-2.0
// Rulesets from a subscription at PID 1, which are those of D-Bus.
#include "daemon/varlink_managed_oom.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/dbus_managed_oom.h"
#include "daemon/managed_oom_watch.h"
#include "exports/log.h"
#include "support/fake_managed_oom.h"
#include "support/fake_unit_bus.h"

namespace forestall::daemon {
namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;
using test::FakeManagedOom;
using test::FakeUnit;
using test::FakeUnitBus;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string pressure_of(const std::string& cgroup, std::uint32_t limit = 0,
                        const std::string& mode = "kill") {
  return fmt::format(
      R"({{"mode":"{}","path":"{}","property":"ManagedOOMMemoryPressure","limit":{}}})", mode,
      cgroup, limit);
}

std::string swap_of(const std::string& cgroup, const std::string& mode = "kill") {
  return fmt::format(R"({{"mode":"{}","path":"{}","property":"ManagedOOMSwap"}})", mode, cgroup);
}

class VarlinkManagedOomTest : public ::testing::Test {
 protected:
  void watch(ManagedOomTimes times = {1h, 1ms, 1ms, 1h}, Duration reply_timeout = 1h) {
    watch_ =
        ManagedOomWatch::start(
            log_, clock_,
            std::make_unique<VarlinkManagedOom>(
                clock_, std::vector<std::string>{"/nonexistent/new", pid1_.path()}, reply_timeout),
            times)
            .value();
    watch_->follow(rulesets::OomdConf());
  }
  // Names of the rulesets that the loop takes next.
  std::vector<std::string> next() {
    pollfd fd{watch_->fd(), POLLIN, 0};
    ::poll(&fd, 1, -1);
    EXPECT_TRUE(watch_->take());
    return names();
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const rulesets::Ruleset& each : watch_->in_force()) found.push_back(each.name);
    return found;
  }
  // PID 1 has another client only after the watch noted why it lost this one.
  std::string problem_of_the_last_connection() {
    pid1_.accept();
    return watch_->state()->problem;
  }

  SystemClock clock_;
  exports::Log log_{exports::Log::Stream::standard_error, true, exports::LogLevel::error};
  FakeManagedOom pid1_;
  std::unique_ptr<ManagedOomWatch> watch_;
};

TEST_F(VarlinkManagedOomTest, FollowsWhatPid1Reports) {
  watch();
  EXPECT_EQ(pid1_.accept(),
            R"({"method":"io.systemd.ManagedOOM.SubscribeManagedOOMCGroups","more":true})");
  EXPECT_FALSE(watch_->state()->read) << "PID 1 did not reply yet";
  pid1_.report(pressure_of("/a") + "," + swap_of("/a", "auto"));
  EXPECT_THAT(next(), ElementsAre("ManagedOOMMemoryPressure /a"));
  EXPECT_TRUE(watch_->state()->read);
  EXPECT_EQ(watch_->state()->problem, "");
  EXPECT_EQ(watch_->source(), "varlink");
  pid1_.report(swap_of("") + "," + pressure_of("/b"));
  EXPECT_THAT(next(), ElementsAre("ManagedOOMSwap", "ManagedOOMMemoryPressure /a",
                                  "ManagedOOMMemoryPressure /b"));
  pid1_.report(pressure_of("/a", 0, "auto"));
  EXPECT_THAT(next(), ElementsAre("ManagedOOMSwap", "ManagedOOMMemoryPressure /b"));
  pid1_.report(pressure_of("/b", 429496729));
  next();
  EXPECT_EQ(watch_->state()->rules.pressure.at("/b").limit_permyriad, 1000);
}

// Its listening socket survives a daemon-reexec, and no connection does.
TEST_F(VarlinkManagedOomTest, AfterAReexecAllIsReplaced) {
  watch();
  pid1_.accept();
  pid1_.report(pressure_of("/a") + "," + pressure_of("/b"));
  next();
  pid1_.hang_up();
  EXPECT_THAT(problem_of_the_last_connection(), HasSubstr("closed the connection"));
  EXPECT_THAT(names(), ElementsAre("ManagedOOMMemoryPressure /a", "ManagedOOMMemoryPressure /b"))
      << "the last rules hold";
  pid1_.report(pressure_of("/b"));
  EXPECT_THAT(next(), ElementsAre("ManagedOOMMemoryPressure /b"));
  pid1_.report(pressure_of("/c"));
  next();
  EXPECT_EQ(watch_->state()->problem, "") << "since the rules before these";
}

TEST_F(VarlinkManagedOomTest, ABrokenReplyChangesNothing) {
  watch();
  pid1_.accept();
  pid1_.report(pressure_of("/a"));
  next();
  const std::pair<std::string_view, std::string> broken[] = {
      {"{\"parameters\":{\"cgroups\":[", "closed the connection"},  // and PID 1 is gone
      {"{\"parameters\":{\"cgroups\":[\0"sv, "invalid JSON"},
      {"{\"parameters\":{}}\0"sv, "no list 'cgroups'"},
      {"{\"error\":\"org.varlink.service.PermissionDenied\"}\0"sv, "systemd-oomd.service only"},
      {"\0"sv, "invalid JSON"}};
  for (const auto& [bytes, problem] : broken) {
    pid1_.send(bytes);
    pid1_.hang_up();
    EXPECT_THAT(problem_of_the_last_connection(), HasSubstr(problem));
    EXPECT_THAT(names(), ElementsAre("ManagedOOMMemoryPressure /a"));
  }
  pid1_.report("");
  EXPECT_THAT(next(), IsEmpty());
}

TEST_F(VarlinkManagedOomTest, AReplyThatIsTheLastOneEndsTheConnection) {
  watch();
  pid1_.accept();
  pid1_.send("{\"parameters\":{\"cgroups\":[]}}\0"sv);
  EXPECT_THAT(problem_of_the_last_connection(), HasSubstr("ended the subscription"));
}

TEST_F(VarlinkManagedOomTest, AReplyWithoutAnEndHasABound) {
  watch();
  pid1_.accept();
  pid1_.send(std::string(clients::VarlinkMessages::kMessageMax + 1, ' '));
  EXPECT_THAT(problem_of_the_last_connection(), HasSubstr("a message has more than"));
}

TEST_F(VarlinkManagedOomTest, WithoutAReplyInTimeTheCallIsRepeated) {
  watch({1h, 1ms, 1ms, 1h}, 20ms);
  pid1_.accept();
  EXPECT_THAT(problem_of_the_last_connection(), HasSubstr("does not reply"));
}

TEST_F(VarlinkManagedOomTest, WhatCannotBeFollowedIsReported) {
  watch();
  pid1_.accept();
  pid1_.report(pressure_of("/../etc") + "," + pressure_of("/a") + R"(,{"mode":"soon"})");
  EXPECT_THAT(next(), ElementsAre("ManagedOOMMemoryPressure /a"));
  pid1_.report(pressure_of("/b"));
  next();
  EXPECT_THAT(watch_->state()->problem, HasSubstr("'mode' must be auto or kill (and 1 more)"));
}

TEST_F(VarlinkManagedOomTest, WithoutPid1ForLongThereAreNoRules) {
  watch({1h, 1ms, 1ms, 50ms}, 10ms);
  pid1_.accept();
  pid1_.report(pressure_of("/a"));
  EXPECT_THAT(next(), ElementsAre("ManagedOOMMemoryPressure /a"));
  pid1_.hang_up();
  EXPECT_THAT(next(), IsEmpty()) << "no client is answered";
}

TEST_F(VarlinkManagedOomTest, AStormOfChangesIsTakenAtIntervals) {
  watch({1h, 500ms, 1ms, 1h});
  pid1_.accept();
  pid1_.report(pressure_of("/a"));
  next();
  const MonotonicTime first = *watch_->state()->read;
  for (std::uint32_t i = 0; i < 100; ++i) pid1_.report(pressure_of("/b", 429496729 + i));
  pid1_.report(pressure_of("/c"));
  EXPECT_THAT(next(), ElementsAre("ManagedOOMMemoryPressure /a", "ManagedOOMMemoryPressure /b",
                                  "ManagedOOMMemoryPressure /c"));
  EXPECT_GE(*watch_->state()->read - first, 500ms);
}

// One property of one unit, as both ways have it.
struct UnitCase {
  const char* name;
  FakeUnit unit;
  std::string elements;
};

FakeUnit unit_of(const std::string& cgroup, bool swap, bool pressure, std::uint32_t limit = 0,
                 std::optional<std::uint64_t> duration = {}) {
  FakeUnit unit;
  unit.cgroup = cgroup;
  unit.swap = swap ? "kill" : "auto";
  unit.pressure = pressure ? "kill" : "auto";
  unit.limit = limit;
  unit.duration = duration;
  return unit;
}

std::string with_duration(const std::string& cgroup, std::uint64_t duration) {
  return fmt::format(
      R"({{"mode":"kill","path":"{}","property":"ManagedOOMMemoryPressure","duration":{}}})",
      cgroup, duration);
}

class BothSources : public VarlinkManagedOomTest {};

TEST_F(BothSources, MakeTheSameRulesets) {
  const UnitCase cases[] = {
      {"swap of the root", unit_of("/", true, false), swap_of("")},
      {"both", unit_of("/a.slice", true, true),
       swap_of("/a.slice") + "," + pressure_of("/a.slice")},
      {"a limit", unit_of("/b", false, true, 2147483647), pressure_of("/b", 2147483647)},
      {"the least limit", unit_of("/b", false, true, 1), pressure_of("/b", 1)},
      {"the largest limit", unit_of("/b", false, true, 4294967295), pressure_of("/b", 4294967295)},
      {"a duration", unit_of("/b", false, true, 0, 1'500'000), with_duration("/b", 1'500'000)},
      {"the default duration", unit_of("/b", false, true, 0, UINT64_MAX),
       with_duration("/b", UINT64_MAX)},
      {"characters of patterns", unit_of("/a*b[c]?", false, true), pressure_of("/a*b[c]?")},
      {"an escaped unit", unit_of(R"(/system.slice/a\x2db.service)", true, false),
       swap_of(R"(/system.slice/a\\x2db.service)")},
      {"a path that no rule can name", unit_of("/a{b}", true, true),
       swap_of("/a{b}") + "," + pressure_of("/a{b}")},
      {"neither", unit_of("/b", false, false),
       swap_of("/b", "auto") + "," + pressure_of("/b", 0, "auto")}};
  for (const UnitCase& each : cases) {
    SCOPED_TRACE(each.name);
    // One rule in any case, so that there is something to take.
    const std::string last = "," + swap_of("/last");
    const FakeUnitBus bus(
        {{"a.service", each.unit}, {"last.service", unit_of("/last", true, false)}});
    auto by_dbus = ManagedOomWatch::start(
        log_, clock_, std::make_unique<DbusManagedOom>(bus.address()), {1h, 1ms, 1ms, 1h});
    ASSERT_TRUE(by_dbus);
    (*by_dbus)->follow(rulesets::OomdConf());
    pollfd fd{(*by_dbus)->fd(), POLLIN, 0};
    ::poll(&fd, 1, -1);
    watch();
    pid1_.accept();
    pid1_.report(each.elements + last);
    next();
    EXPECT_EQ(watch_->in_force(), (*by_dbus)->in_force());
    EXPECT_EQ(watch_->state()->rules, (*by_dbus)->state()->rules);
    EXPECT_EQ(*watch_->monitored(), *(*by_dbus)->monitored());
    watch_.reset();
    pid1_.hang_up();
  }
}

TEST(SystemdOomdUnit, IsThatOfTheSystemsSystemd) {
  EXPECT_TRUE(is_systemd_oomd("/system.slice/systemd-oomd.service"));
  EXPECT_TRUE(is_systemd_oomd("/systemd-oomd.service"));
  EXPECT_TRUE(is_systemd_oomd("/a.slice/a-b.slice/systemd-oomd.service/below"));
  EXPECT_FALSE(is_systemd_oomd(""));
  EXPECT_FALSE(is_systemd_oomd("/"));
  EXPECT_FALSE(is_systemd_oomd("/system.slice/forestall.service"));
  EXPECT_FALSE(is_systemd_oomd("/system.slice/forestall.service/systemd-oomd.service"));
  EXPECT_FALSE(is_systemd_oomd(
      "/user.slice/user-1000.slice/user@1000.service/app.slice/systemd-oomd.service"));
  EXPECT_FALSE(is_systemd_oomd("/system.slice/xsystemd-oomd.service"));
}

}  // namespace
}  // namespace forestall::daemon
