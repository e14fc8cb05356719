// SPDX-License-Identifier: Apache-2.0
#include "clients/managed_oom_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "support/fake_systemd.h"
#include "support/fake_unit_bus.h"

namespace forestall::clients {
namespace {

using test::FakeUnit;
using test::FakeUnitBus;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

FakeUnit kills_swap(const std::string& cgroup) {
  FakeUnit unit;
  unit.cgroup = cgroup;
  unit.swap = "kill";
  return unit;
}

FakeUnit kills_pressure(const std::string& cgroup, std::uint32_t limit = 0) {
  FakeUnit unit;
  unit.cgroup = cgroup;
  unit.pressure = "kill";
  unit.limit = limit;
  return unit;
}

std::unique_ptr<ManagedOomUnits> connected(const FakeUnitBus& bus, ManagedUnits known = {}) {
  auto units = ManagedOomUnits::connect(bus.address(), std::move(known));
  EXPECT_TRUE(units) << units.error().text();
  return units ? std::move(*units) : nullptr;
}

bool refreshed(ManagedOomUnits& units, bool all = false) {
  const auto done = units.refresh(all, [] { return false; });
  return done.ok();
}

// Waits for what systemd signals.
Result<void> next_signal(ManagedOomUnits& units) {
  for (;;) {
    auto processed = units.process();
    if (!processed || units.has_changes()) return processed;
    pollfd bus{units.fd(), units.events(), 0};
    ::poll(&bus, 1, -1);
  }
}

std::vector<std::string> cgroups(const ManagedOomUnits& units) {
  std::vector<std::string> found;
  for (const auto& [path, unit] : units.units()) {
    if (unit.swap) found.push_back("swap " + unit.cgroup);
    if (unit.pressure) found.push_back("pressure " + unit.cgroup);
  }
  return found;
}

TEST(ManagedOomUnits, AreActiveSlicesServicesAndScopes) {
  FakeUnitBus bus({{"-.slice", kills_swap("/")},
                   {"a.service", kills_pressure("/system.slice/a.service", 2147483647)},
                   {"b.scope", kills_swap("/b.scope")},
                   {"c.mount", kills_swap("/c.mount")},
                   {"plain.service", {}}});
  for (const char* state : {"inactive", "failed"}) {
    FakeUnit unit = kills_swap("/gone");
    unit.state = state;
    bus.set(std::string(state) + ".service", unit);
  }
  auto starting = kills_pressure("/system.slice/d.service");
  starting.state = "activating";
  starting.duration = 5'000'000;
  bus.set("d.service", starting);
  const auto units = connected(bus);
  ASSERT_TRUE(refreshed(*units));
  EXPECT_THAT(cgroups(*units),
              UnorderedElementsAre("swap /", "pressure /system.slice/a.service", "swap /b.scope",
                                   "pressure /system.slice/d.service"));
  EXPECT_THAT(units->problems(), IsEmpty());
  for (const auto& [path, unit] : units->units()) {
    if (unit.name == "a.service") {
      EXPECT_EQ(unit.limit, 2147483647U);
      EXPECT_FALSE(unit.duration) << "systemd 252 has none";
    }
    if (unit.name == "d.service") {
      EXPECT_EQ(unit.duration, std::chrono::seconds(5));
    }
  }
}

TEST(ManagedOomUnits, TheLargestDurationIsTheDefault) {
  auto unit = kills_pressure("/a");
  unit.duration = UINT64_MAX;
  const FakeUnitBus bus({{"a.service", unit}});
  const auto units = connected(bus);
  ASSERT_TRUE(refreshed(*units));
  EXPECT_FALSE(units->units().begin()->second.duration);
}

TEST(ManagedOomUnits, OnlyTheUnitsThatChangedAreReadAgain) {
  FakeUnitBus bus({{"a.service", FakeUnit()}, {"b.service", FakeUnit()}});
  const auto units = connected(bus);
  ASSERT_TRUE(refreshed(*units));
  EXPECT_THAT(bus.read_units(), ElementsAre("a.service", "b.service"));
  EXPECT_FALSE(units->has_changes());
  bus.set("b.service", kills_swap("/b"));
  bus.signal_change("b.service");
  ASSERT_TRUE(next_signal(*units));
  ASSERT_TRUE(refreshed(*units));
  EXPECT_THAT(bus.read_units(), ElementsAre("a.service", "b.service", "b.service"));
  EXPECT_THAT(cgroups(*units), ElementsAre("swap /b"));
}

// systemd signals no change of these properties.
TEST(ManagedOomUnits, AllAreReadOnRequestAndAfterAReload) {
  FakeUnitBus bus({{"a.service", FakeUnit()}});
  const auto units = connected(bus);
  ASSERT_TRUE(refreshed(*units));
  bus.set("a.service", kills_swap("/a"));
  ASSERT_TRUE(refreshed(*units, /*all=*/true));
  EXPECT_THAT(cgroups(*units), ElementsAre("swap /a"));
  bus.set("a.service", {});
  bus.signal_reloaded();
  ASSERT_TRUE(next_signal(*units));
  ASSERT_TRUE(refreshed(*units));
  EXPECT_THAT(cgroups(*units), IsEmpty());
}

// To read it would load it, which systemd reports as a new unit, and so on.
TEST(ManagedOomUnits, AUnitThatIsNotActiveIsNeverRead) {
  FakeUnit inactive = kills_swap("/a");
  inactive.state = "inactive";
  FakeUnitBus bus({{"a.service", inactive}});
  const auto units = connected(bus);
  ASSERT_TRUE(refreshed(*units));
  bus.signal_new("a.service");
  bus.signal_new("gone.service");
  ASSERT_TRUE(next_signal(*units));
  ASSERT_TRUE(refreshed(*units));
  EXPECT_THAT(bus.read_units(), IsEmpty());
}

TEST(ManagedOomUnits, AUnitThatStopsIsForgotten) {
  FakeUnitBus bus({{"a.service", kills_swap("/a")}});
  const auto units = connected(bus);
  ASSERT_TRUE(refreshed(*units));
  bus.remove("a.service");
  ASSERT_TRUE(refreshed(*units));
  EXPECT_THAT(units->units(), IsEmpty());
}

TEST(ManagedOomUnits, WhatCannotBeReadStaysAsItWas) {
  FakeUnitBus bus({{"a.service", kills_swap("/a")}, {"b.service", kills_swap("/b")}});
  const auto units = connected(bus);
  ASSERT_TRUE(refreshed(*units));
  FakeUnit denied = kills_pressure("/a");
  denied.error = "org.freedesktop.DBus.Error.AccessDenied";
  bus.set("a.service", denied);
  FakeUnit unknown = kills_pressure("/b");
  unknown.swap = "perhaps";
  bus.set("b.service", unknown);
  ASSERT_TRUE(refreshed(*units, /*all=*/true));
  EXPECT_THAT(cgroups(*units), UnorderedElementsAre("swap /a", "swap /b"));
  EXPECT_THAT(units->problems(),
              UnorderedElementsAre(HasSubstr("a.service: get ManagedOOMSwap: org.freedesktop.DBus."
                                             "Error.AccessDenied"),
                                   HasSubstr("b.service: ManagedOOMSwap is 'perhaps'")));
  EXPECT_TRUE(units->has_changes()) << "they are read again";
  bus.set("a.service", {});
  bus.set("b.service", {});
  ASSERT_TRUE(refreshed(*units));
  EXPECT_THAT(cgroups(*units), IsEmpty());
  EXPECT_THAT(units->problems(), IsEmpty());
}

// Without an earlier reading there is no rule.
TEST(ManagedOomUnits, WhatWasNeverReadIsNotAssumed) {
  FakeUnit denied = kills_swap("/a");
  denied.error = "org.freedesktop.DBus.Error.AccessDenied";
  const FakeUnitBus bus({{"a.service", denied}});
  const auto units = connected(bus);
  ASSERT_TRUE(refreshed(*units));
  EXPECT_THAT(units->units(), IsEmpty());
}

TEST(ManagedOomUnits, AnEarlierConnectionsReadingHoldsUntilTheUnitIsRead) {
  FakeUnitBus bus({{"a.service", kills_swap("/a")}});
  auto units = connected(bus);
  ASSERT_TRUE(refreshed(*units));
  const ManagedUnits known = units->units();
  units.reset();
  FakeUnit denied = kills_swap("/a");
  denied.error = "org.freedesktop.DBus.Error.AccessDenied";
  bus.set("a.service", denied);
  units = connected(bus, known);
  ASSERT_TRUE(refreshed(*units));
  EXPECT_THAT(cgroups(*units), ElementsAre("swap /a"));
}

TEST(ManagedOomUnits, AReexecAndALostConnectionAreErrors) {
  FakeUnitBus bus({{"a.service", kills_swap("/a")}});
  auto units = connected(bus);
  ASSERT_TRUE(refreshed(*units));
  bus.signal_reexec();
  EXPECT_THAT(next_signal(*units).error().text(), HasSubstr("systemd left the bus"));
  units.reset();
  units = connected(bus);
  ASSERT_TRUE(refreshed(*units));
  bus.go_away();
  EXPECT_FALSE(next_signal(*units));
  EXPECT_FALSE(refreshed(*units));
  EXPECT_THAT(cgroups(*units), ElementsAre("swap /a")) << "as before";
}

// A local user may send the agent signals, which pass no match of the bus.
TEST(ManagedOomUnits, SignalsOfAnotherClientAreIgnored) {
  FakeUnitBus bus({{"a.service", FakeUnit()}, {"b.service", FakeUnit()}});
  const auto units = connected(bus);
  ASSERT_TRUE(refreshed(*units));
  bus.signal_forged("a.service");
  bus.signal_change("b.service");
  const auto next = next_signal(*units);
  ASSERT_TRUE(next) << next.error().text();
  ASSERT_TRUE(refreshed(*units));
  EXPECT_THAT(bus.read_units(), ElementsAre("a.service", "b.service", "b.service"));
  bus.signal_reexec();
  EXPECT_FALSE(next_signal(*units)) << "of the bus itself";
}

TEST(ManagedOomUnits, OnlyShortPathsOfUnitsAreChanges) {
  const std::string long_name = std::string(200, '-') + ".service";  // 600 characters of the path
  FakeUnitBus bus({{long_name, FakeUnit()}, {"b.service", FakeUnit()}});
  const auto units = connected(bus);
  ASSERT_TRUE(refreshed(*units));
  EXPECT_THAT(bus.read_units(), UnorderedElementsAre(long_name, "b.service"));
  bus.signal_change(long_name);
  // More paths than are kept are all units.
  for (int i = 0; i < 1100; ++i) {
    bus.signal_new_at("/org/freedesktop/systemd1/job/" + std::to_string(i));
  }
  bus.signal_change("b.service");
  ASSERT_TRUE(next_signal(*units));
  ASSERT_TRUE(refreshed(*units));
  EXPECT_THAT(bus.read_units(), UnorderedElementsAre(long_name, "b.service", "b.service"));
}

TEST(ManagedOomUnits, AFloodOfSignalsDuringACallEndsTheConnection) {
  FakeUnitBus bus({{"a.service", kills_swap("/a")}, {"b.service", kills_swap("/b")}});
  const auto units = connected(bus);
  bus.flood(1000);
  ASSERT_TRUE(refreshed(*units)) << "a few are read";
  EXPECT_FALSE(units->has_changes());
  bus.flood(10'000);
  EXPECT_FALSE(refreshed(*units, /*all=*/true));
  EXPECT_THAT(cgroups(*units), UnorderedElementsAre("swap /a", "swap /b")) << "as before";
}

TEST(ManagedOomUnits, AnErrorOfTheConnectionIsNotOneOfTheUnit) {
  FakeUnitBus bus({{"a.service", kills_swap("/a")}});
  const auto units = connected(bus);
  ASSERT_TRUE(refreshed(*units));
  FakeUnit left = kills_swap("/a");
  left.error = "org.freedesktop.DBus.Error.NoReply";
  bus.set("a.service", left);
  EXPECT_FALSE(refreshed(*units, /*all=*/true));
  EXPECT_THAT(cgroups(*units), ElementsAre("swap /a"));
}

TEST(ManagedOomUnits, ABusThatDoesNotAnswerIsGivenUp) {
  const test::FakeSystemd systemd(test::FakeSystemd::Answer::accepts_nothing);
  const auto units = ManagedOomUnits::connect(systemd.address(), {});
  ASSERT_FALSE(units);
  EXPECT_EQ(units.error().code, ETIMEDOUT);
  EXPECT_FALSE(ManagedOomUnits::connect("unix:path=/nonexistent/bus", {}));
}

}  // namespace
}  // namespace forestall::clients
