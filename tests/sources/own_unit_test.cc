// SPDX-License-Identifier: Apache-2.0
// The agent's own unit where units have no memory cgroup.
#include "sources/own_unit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sources/rule_reader.h"
#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(OwnUnit, IsInTheHierarchyOfSystemd) {
  EXPECT_EQ(parse_unit_path("5:memory:/m\n1:name=systemd:/system.slice/a.service\n0::/u\n"),
            "/system.slice/a.service");
  EXPECT_EQ(parse_unit_path("1:name=systemd:/a:b\n"), "/a:b");
  EXPECT_EQ(parse_unit_path("1:name=systemd:/\n"), std::nullopt);
  EXPECT_EQ(parse_unit_path("1:name=systemd:a\n"), std::nullopt);
  EXPECT_EQ(parse_unit_path("1:name=systemd\n"), std::nullopt);
  EXPECT_EQ(parse_unit_path("0::/system.slice/a.service\n"), std::nullopt);
  EXPECT_EQ(unit_path("/nonexistent"), std::nullopt);
}

std::vector<std::string> spared_on(const test::TempTree& files, const std::string& cgroup) {
  const auto tree = kernel::CgroupTree::discover(files / cgroup);
  if (!tree) return {tree.error().text()};
  RuleSampleReader reader(*tree, files / "proc");
  return reader.read(MonotonicTime(), {}).spared;
}

TEST(OwnUnit, IsSparedWithoutAMemoryCgroup) {
  const std::string unit = "1:name=systemd:/system.slice/forestall.service\n";
  const test::TempTree files{{"v1/memory/memory.stat", ""},
                             {"v2/cgroup.controllers", "memory\n"},
                             {"proc/self/cgroup", "5:memory:/\n" + unit + "0::/\n"},
                             {"proc/1/cgroup", "5:memory:/\n1:name=systemd:/init.scope\n0::/\n"}};
  EXPECT_THAT(spared_on(files, "v1"),
              ElementsAre("/system.slice/forestall.service", "/init.scope"));
  EXPECT_THAT(spared_on(files, "v2"), IsEmpty()) << "there the memory cgroup is the unit's";
}

// With MemoryAccounting.
TEST(OwnUnit, AMemoryCgroupOfTheUnitIsListedOnce) {
  const test::TempTree files{
      {"v1/memory/memory.stat", ""},
      {"proc/self/cgroup", "5:memory:/a.service\n1:name=systemd:/a.service\n"},
      {"proc/1/cgroup", "5:memory:/\n1:name=systemd:/\n"}};
  EXPECT_THAT(spared_on(files, "v1"), ElementsAre("/a.service"));
}

}  // namespace
}  // namespace forestall::sources
