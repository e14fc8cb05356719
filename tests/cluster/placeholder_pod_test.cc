// SPDX-License-Identifier: Apache-2.0
#include "cluster/placeholder_pod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/json_value.h"

namespace forestall::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

rebalance::Snapshot snapshot_of_move() {
  rebalance::Snapshot snapshot;
  snapshot.priority_classes = {{"forestall-placeholder", -1000}};
  rebalance::ClusterPod& pod = snapshot.pods.emplace_back();
  pod.pod_namespace = "shop";
  pod.name = "a";
  pod.uid = "uid-a";
  pod.node = "n1";
  pod.owners = {{"ReplicaSet", "web", "owner"}};
  return snapshot;
}

TEST(WantedRoom, IsThatOfTheMovedPod) {
  rebalance::Snapshot snapshot = snapshot_of_move();
  rebalance::ClusterPod& pod = snapshot.pods[0];
  pod.request.at(rebalance::kCpu) = 250 * rebalance::Nanos{rebalance::kNanosPerMilli};
  pod.request.at(rebalance::kMemory) = 64 * rebalance::Nanos{rebalance::kNanosPerUnit};
  pod.request.at("example.com/card") = rebalance::kNanosPerUnit;
  pod.tolerations = {
      {"pool", "a", rebalance::TolerationOperator::equal, rebalance::TaintEffect::no_schedule},
      {"bad", "", rebalance::TolerationOperator::unknown, std::nullopt},
  };
  const WantedRoom room = wanted_room({}, snapshot, 0, "n2", "run-1").value();
  EXPECT_EQ(room.owner, "owner");
  EXPECT_THAT(room.old, ElementsAre("uid-a"));
  EXPECT_TRUE(text::JsonDocument::parse(room.manifest)) << room.manifest;
  for (const char* part :
       {R"("name":"placeholder-uid-a","namespace":"forestall-placeholders")",
        R"("labels":{"forestall.dev/plan":"run-1"})",
        R"("requests":{"cpu":"250m","memory":"64","example.com/card":"1"},"limits":{)"
        R"("example.com/card":"1"})",
        R"("tolerations":[{"key":"pool","operator":"Equal","value":"a","effect":"NoSchedule"}])",
        R"("matchFields":[{"key":"metadata.name","operator":"In","values":["n2"]}])",
        R"("priorityClassName":"forestall-placeholder")", R"("activeDeadlineSeconds":360)",
        R"("automountServiceAccountToken":false)", R"("runAsNonRoot":true)"}) {
    EXPECT_THAT(room.manifest, HasSubstr(part));
  }
  EXPECT_EQ(room.manifest.find("ownerReferences"), std::string::npos);
  EXPECT_EQ(room.manifest.find("nodeName"), std::string::npos) << "the scheduler decides";
}

TEST(WantedRoom, NeedsAReplacementThatCanPreempt) {
  rebalance::Snapshot snapshot = snapshot_of_move();
  snapshot.pods[0].priority = -1000;
  EXPECT_THAT(wanted_room({}, snapshot, 0, "n2", "run-1").error().text(),
              HasSubstr("its priority -1000 is not above -1000"));
  snapshot.pods[0].priority = 5;
  snapshot.pods[0].preempts = false;
  EXPECT_THAT(wanted_room({}, snapshot, 0, "n2", "run-1").error().text(), HasSubstr("Never"));
  snapshot.pods[0].preempts = true;
  snapshot.priority_classes.clear();
  EXPECT_THAT(wanted_room({}, snapshot, 0, "n2", "run-1").error().text(),
              HasSubstr("no PriorityClass 'forestall-placeholder'"));
}

TEST(ReadPlaceholder, HasItsNodeAndWhyItHoldsNoRoom) {
  const auto problem = [](const char* more) {
    return read_placeholder(std::string(R"({"metadata":{"uid":"u")") + more).value().problem;
  };
  const auto status =
      read_placeholder(R"({"metadata":{"uid":"u","labels":{"forestall.dev/plan":"p"}},)"
                       R"("spec":{"nodeName":"n2"},"status":{"phase":"Pending"}})")
          .value();
  EXPECT_EQ(status.uid, "u");
  EXPECT_EQ(status.plan, "p");
  EXPECT_EQ(status.node, "n2");
  EXPECT_EQ(status.problem, "");
  EXPECT_THAT(problem(R"(},"status":{"phase":"Failed","reason":"OutOfcpu"}})"),
              HasSubstr("OutOfcpu"));
  EXPECT_THAT(problem(R"(,"deletionTimestamp":"2026-01-01T00:00:00Z"}})"), HasSubstr("preempted"));
  EXPECT_THAT(problem(R"(},"status":{"conditions":[{"type":"PodScheduled","status":"False",)"
                      R"("reason":"SchedulerError","message":"later"}]}})"),
              "")
      << "the scheduler tries again";
  EXPECT_FALSE(read_placeholder("{}"));
  EXPECT_FALSE(read_placeholder("<html>"));
}

}  // namespace
}  // namespace forestall::cluster
