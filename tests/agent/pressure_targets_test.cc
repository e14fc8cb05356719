// SPDX-License-Identifier: Apache-2.0
// Which cgroups are watched for memory pressure, on a node of files.
#include "agent/pressure_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/descriptors_used_up.h"
#include "support/small_node.h"

namespace forestall::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Key;
using testing::SizeIs;

class PressureTargetsTest : public ::testing::Test {
 protected:
  PressureTargetsTest() {
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    EXPECT_TRUE(found) << found.error().text();
    tree_ = std::move(found).value();
    Pod pod;
    pod.pod_namespace = "ns";
    pod.name = "web";
    pod.priority = 7;
    PodContainer app;
    app.name = "app";
    app.id = "aa11";
    app.requests.memory = parse_quantity("4Ki").value();
    pod.containers = {app};
    pod_ = {"/pods/web", *tree_.id_at("/pods/web"), std::make_shared<const Pod>(std::move(pod))};
  }
  [[nodiscard]] PressureTargets find(std::vector<std::string> cgroups = {},
                                     const std::vector<std::string>& own = {}) const {
    ContainerPressureFacts facts;
    facts.pods = {pod_};
    facts.config.cgroups = std::move(cgroups);
    return find_pressure_targets(tree_, facts, own);
  }
  [[nodiscard]] static std::vector<std::string> paths(const PressureTargets& targets) {
    std::vector<std::string> all;
    for (const PressureTarget& each : targets.watched) all.push_back(each.path);
    return all;
  }

  test::SmallNode files_{"/pods/web", "/pods/web/aa11", "/db", "/system/agent"};
  kernel::CgroupTree tree_;
  PressurePod pod_;
};

TEST_F(PressureTargetsTest, ContainersHaveTheFactsOfTheirPod) {
  const PressureTargets targets = find({"/db"});
  ASSERT_THAT(paths(targets), ElementsAre("/pods/web/aa11", "/db"));
  EXPECT_EQ(targets.watched[0].subject, "ns/web/app");
  EXPECT_EQ(targets.watched[0].workload, pod_.cgroup);
  EXPECT_EQ(targets.watched[0].qos, QosClass::burstable);
  EXPECT_EQ(targets.watched[0].priority, 7);
  EXPECT_EQ(targets.watched[1].subject, "/db");
  EXPECT_EQ(targets.watched[1].qos, std::nullopt);
}

TEST_F(PressureTargetsTest, AContainerThatTheConfigurationNamesTooIsOneOfItsPod) {
  const PressureTargets targets = find({"/pods/web/aa11"});
  ASSERT_THAT(targets.watched, SizeIs(1));
  EXPECT_EQ(targets.watched[0].subject, "ns/web/app");
  EXPECT_EQ(targets.watched[0].priority, 7);
}

TEST_F(PressureTargetsTest, WhatHoldsTheAgentIsRefused) {
  const PressureTargets targets = find({"/system", "/system/agent", "/db"}, {"/system/agent"});
  EXPECT_THAT(paths(targets), ElementsAre("/pods/web/aa11", "/db"));
  EXPECT_THAT(targets.refused, ElementsAre(Key("/system"), Key("/system/agent")));
  EXPECT_THAT(paths(find({}, {"/pods/web/aa11"})), IsEmpty()) << "a pod of the agent";
}

TEST_F(PressureTargetsTest, WhatIsRemovedIsLeftOut) {
  const PressureTargets targets = find({"/gone"});
  EXPECT_THAT(paths(targets), ElementsAre("/pods/web/aa11"));
  EXPECT_THAT(targets.unknown_pods, IsEmpty());
}

// Else its lifts were taken back under pressure.
TEST_F(PressureTargetsTest, WithoutFreeDescriptorsThePodIsUnknown) {
  const test::DescriptorsUsedUp none;
  const PressureTargets targets = find();
  EXPECT_THAT(targets.watched, IsEmpty());
  EXPECT_THAT(targets.unknown_pods, ElementsAre("/pods/web"));
}

}  // namespace
}  // namespace forestall::agent
