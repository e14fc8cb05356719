// SPDX-License-Identifier: Apache-2.0
#include "model/rule_observation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forestall::rulesets {
namespace {

using testing::ElementsAre;

std::vector<std::string> paths(const std::vector<const Cgroup*>& cgroups) {
  std::vector<std::string> all;
  for (const Cgroup* each : cgroups) all.push_back(each->path);
  return all;
}

RuleObservation observation_of(const std::vector<std::string>& paths) {
  RuleObservation made;
  for (const std::string& path : paths) {
    Cgroup cgroup;
    cgroup.path = path;
    made.cgroups.push_back(cgroup);
  }
  return made;
}

TEST(RuleObservation, ChildrenAreDirectOnesOnly) {
  // '-' sorts before '/', so /a-b lies between /a and /a/b.
  const auto observed = observation_of({"/", "/a", "/a-b", "/a-b/c", "/a/b", "/a/b/c", "/ab"});
  EXPECT_THAT(paths(observed.children(*observed.find("/"))), ElementsAre("/a", "/a-b", "/ab"));
  EXPECT_THAT(paths(observed.children(*observed.find("/a"))), ElementsAre("/a/b"));
  EXPECT_THAT(paths(observed.children(*observed.find("/ab"))), ElementsAre());
}

TEST(RuleObservation, ParentOfTheRootIsAbsent) {
  const auto observed = observation_of({"/", "/a", "/a/b"});
  EXPECT_EQ(observed.parent(*observed.find("/")), nullptr);
  EXPECT_EQ(observed.parent(*observed.find("/a"))->path, "/");
  EXPECT_EQ(observed.parent(*observed.find("/a/b"))->path, "/a");
}

TEST(RuleObservation, UsageOfTheRootIsThatOfTheNode) {
  auto observed = observation_of({"/", "/a"});
  observed.host.mem_total = 100;
  EXPECT_EQ(observed.usage(observed.cgroups[0]), std::nullopt);
  observed.host.mem_free = 30;
  observed.cgroups[1].current = 5;
  EXPECT_EQ(observed.usage(observed.cgroups[0]), 70);
  EXPECT_EQ(observed.usage(observed.cgroups[1]), 5);
}

TEST(RuleHost, SwapComesFromEitherFile) {
  Host host;
  EXPECT_EQ(host.total_swap(), std::nullopt);
  host.swap_total = 100;
  host.swap_free = 60;
  EXPECT_EQ(host.total_swap(), 100);
  EXPECT_EQ(host.used_swap(), 40);
  host.swaps_total = 90;
  host.swaps_used = 10;
  EXPECT_EQ(host.total_swap(), 90);
  EXPECT_EQ(host.used_swap(), 10);
}

}  // namespace
}  // namespace forestall::rulesets
