// SPDX-License-Identifier: Apache-2.0
// NodePressure: which nodes are sources by their reports, which pods leave, and where they may go.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace forestall::rebalance::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct ReportText {
  std::string time = "2026-01-01T11:59:50Z";
  std::string headroom = "3Gi";
  std::string seconds = {};  // to the crossing
  std::string growth = "0";
  std::string full = "0";
  std::string pods = {};
};

std::string report_text(const std::string& node, const ReportText& text = {}) {
  const std::string seconds =
      text.seconds.empty() ? "" : fmt::format(R"(, "secondsToCrossing": {})", text.seconds);
  return fmt::format(
      R"({{"apiVersion": "forestall.dev/v1alpha1", "kind": "NodeReport", "metadata":)"
      R"( {{"name": "{}"}}, "status": {{"time": "{}", "memory": {{"capacity": "4Gi",)"
      R"( "workingSet": "2Gi"}}, "memoryStallPercent": {{"some": 0, "full": {}}}, "thresholds":)"
      R"( [{{"signal": "nodefs.available", "headroom": "-1"}}, {{"signal": "memory.available",)"
      R"( "headroom": "{}", "growthPerSecond": "{}"{}}}], "lastHour": {{"evictions": 0,)"
      R"( "oomKills": 1}}, "pods": [{}]}}}})",
      node, text.time, text.full, text.headroom, text.growth, seconds, text.pods);
}

std::string reported_pod(const std::string& name, const std::string& size,
                         const std::string& growth = "0") {
  return fmt::format(
      R"({{"namespace": "default", "name": "{}", "workingSet": "{}", "growthPerSecond": "{}"}})",
      name, size, growth);
}

std::string with_uid(const std::string& name, const std::string& size) {
  std::string pod = reported_pod(name, size);
  return pod.insert(1, fmt::format(R"("uid": "uid-{}", )", name));
}

std::string without_capacity(std::string report) {
  const std::string capacity = R"("capacity": "4Gi",)";
  return report.erase(report.find(capacity), capacity.size());
}

std::string without_growth(std::string report) {
  const auto begin = report.find(R"(, "growthPerSecond")");
  return report.erase(begin, report.find_first_of(",}", begin + 1) - begin);
}

// Three reports, 30 s apart, of which the last one has `text`.
std::vector<std::string> series(const std::string& node, ReportText text) {
  std::vector<std::string> all;
  for (const char* const second : {"11:58:50", "11:59:20", "11:59:50"}) {
    text.time = fmt::format("2026-01-01T{}Z", second);
    all.push_back(report_text(node, text));
  }
  return all;
}

const NodeText kLarge{.cpu = "8", .memory = "4Gi"};

std::vector<std::string> three_nodes() {
  return {node_text("n1", kLarge), node_text("n2", kLarge), node_text("n3", kLarge)};
}

std::vector<std::string> two_pods() {
  return {pod_text("big", "n1"), pod_text("grows", "n1")};
}

const std::string kTwoPods =
    reported_pod("big", "512Mi") + "," + reported_pod("grows", "256Mi", "1Mi");
const ReportText kSoon{.headroom = "300Mi", .seconds = "300", .growth = "1Mi", .pods = kTwoPods};

World press(const std::vector<std::string>& objects, const std::string& args = "{}",
            const std::string& top = "") {
  return plan_for(policy_text("NodePressure", args, "{}", top), objects);
}

TEST(NodePressure, ThePodThatGrowsLeavesANodeThatWillCross) {
  const World world = press(three_nodes() + two_pods() + series("n1", kSoon) +
                            std::vector<std::string>{report_text("n2")});
  EXPECT_EQ(world.node_class("n1"), NodeClass::source);
  EXPECT_EQ(world.node_class("n2"), NodeClass::destination);
  EXPECT_EQ(world.node_class("n3"), NodeClass::excluded);
  EXPECT_EQ(world.run().nodes[2].detail, "no report");
  EXPECT_THAT(world.evicted(), ElementsAre("grows"));
  EXPECT_EQ(world.plan.evictions[0].reason,
            "memory.available is crossed in 300 s: headroom 300 MiB");
  EXPECT_EQ(world.snapshot.nodes[*world.plan.evictions[0].destination].name, "n2");
}

TEST(NodePressure, AFullNodeThatIsFarFromItsThresholdsIsLeftAlone) {
  const World world =
      press(three_nodes() + two_pods() +
            series("n1", {.headroom = "10Mi", .seconds = "601", .growth = "1", .pods = kTwoPods}) +
            std::vector<std::string>{report_text("n2")});
  EXPECT_THAT(world.evicted(), IsEmpty());
  EXPECT_EQ(world.run().outcome, "no node is under pressure");
}

TEST(NodePressure, TooFewReportsOrAGapBetweenThemMakeNoSource) {
  const std::vector<std::string> rest = three_nodes() + two_pods() + std::vector{report_text("n2")};
  const std::vector<std::string> all = series("n1", kSoon);
  EXPECT_THAT(press(rest + std::vector{all[1], all[2]}).evicted(), IsEmpty());
  // A report that is read twice is one report.
  const World twice = press(rest + std::vector{all[1], all[2], all[2]});
  EXPECT_EQ(twice.node_class("n1"), NodeClass::excluded);
  EXPECT_THAT(twice.run().nodes[0].detail, HasSubstr("; in 2 of 3 reports"));
  ReportText old = kSoon;
  old.time = "2026-01-01T11:57:19Z";
  EXPECT_THAT(press(rest + std::vector{report_text("n1", old), all[1], all[2]}).evicted(),
              IsEmpty());
  ReportText calm{.time = "2026-01-01T11:59:20Z"};
  EXPECT_THAT(press(rest + std::vector{all[0], report_text("n1", calm), all[2]}).evicted(),
              IsEmpty());
  EXPECT_THAT(press(rest + std::vector{all[2]}, "{consecutiveReports: 1}").evicted(),
              ElementsAre("grows"));
}

TEST(NodePressure, AnOldReportIsUnknownOnBothSides) {
  const std::vector<std::string> pods = three_nodes() + two_pods();
  ReportText old{.time = "2026-01-01T11:57:59Z"};
  const World source = press(pods + series("n1", kSoon) + std::vector{report_text("n2", old)});
  EXPECT_THAT(source.evicted(), IsEmpty());
  EXPECT_EQ(source.run().nodes[1].detail, "the report is 121 s old");
  EXPECT_EQ(source.run().outcome, "no node without pressure has a current report");
  ReportText stale = kSoon;
  stale.time = "2026-01-01T11:57:59Z";
  EXPECT_THAT(press(pods + std::vector{report_text("n1", stale), report_text("n2")},
                    "{consecutiveReports: 1}")
                  .evicted(),
              IsEmpty());
  EXPECT_THAT(press(pods + series("n1", kSoon) + std::vector{report_text("n2", old)},
                    "{maxReportAgeSeconds: 121}")
                  .evicted(),
              ElementsAre("grows"));
}

// How a stall changes with a pod is not known, so one pod leaves and the next report decides.
TEST(NodePressure, AStallMovesOnePod) {
  const ReportText stalls{.full = "10.5", .pods = kTwoPods};
  const std::vector<std::string> cluster =
      three_nodes() + two_pods() + series("n1", stalls) + std::vector{report_text("n2")};
  const World world = press(cluster);
  EXPECT_THAT(world.evicted(), ElementsAre("grows"));
  EXPECT_EQ(world.plan.evictions[0].reason, "full memory stall 10.5 % above 10.0 %");
  EXPECT_THAT(press(cluster, "{stallPercent: {full: 11}}").evicted(), IsEmpty());
  EXPECT_THAT(press(cluster, "{stallPercent: {}}").evicted(), IsEmpty());
}

TEST(NodePressure, PodsLeaveUntilTheNodeIsFarEnough) {
  const ReportText crossed{.headroom = "-100Mi",
                           .pods = reported_pod("a", "60Mi") + "," + reported_pod("b", "50Mi") +
                                   "," + reported_pod("c", "40Mi")};
  const std::vector<std::string> cluster =
      three_nodes() + std::vector{pod_text("a", "n1"), pod_text("b", "n1"), pod_text("c", "n1")} +
      series("n1", crossed) + std::vector{report_text("n2")};
  EXPECT_THAT(press(cluster).evicted(), ElementsAre("a", "b"));
  const World limited = press(cluster, "{evictionLimits: {node: 1}}");
  EXPECT_THAT(limited.evicted(), ElementsAre("a"));
  EXPECT_THAT(limited.run().limits,
              ElementsAre("Max number of evictions per node per plugin reached"));
}

// A pod moves to a node by its report, and stays where it is if `unknown` takes something out of
// it.
void expect_no_destination(std::string (*unknown)(std::string report)) {
  const ReportText crossed{.headroom = "-1", .pods = reported_pod("big", "256Mi")};
  const std::vector<std::string> cluster = three_nodes() + two_pods() + series("n1", crossed);
  const std::string report = report_text("n2", {.headroom = "1300Mi"});
  const World complete = press(cluster + std::vector{report});
  ASSERT_EQ(complete.plan.evictions.size(), 1U);
  EXPECT_EQ(complete.plan.evictions[0].refused, "");
  const World incomplete = press(cluster + std::vector{unknown(report)});
  ASSERT_EQ(incomplete.plan.evictions.size(), 1U);
  EXPECT_NE(incomplete.plan.evictions[0].refused, "");
}

TEST(NodePressure, ANodeOfUnknownCapacityIsNoDestination) {
  expect_no_destination(without_capacity);
}

TEST(NodePressure, ANodeOfUnknownGrowthIsNoDestination) {
  expect_no_destination(without_growth);
}

TEST(NodePressure, FromASourceOfUnknownGrowthOnePodLeaves) {
  const ReportText crossed{.headroom = "-100Mi",
                           .pods = reported_pod("a", "60Mi") + "," + reported_pod("b", "50Mi")};
  std::vector<std::string> reports = series("n1", crossed);
  const std::vector<std::string> rest =
      three_nodes() + std::vector{pod_text("a", "n1"), pod_text("b", "n1"), report_text("n2")};
  EXPECT_THAT(press(rest + reports).evicted(), ElementsAre("a", "b"));
  reports.back() = without_growth(reports.back());
  EXPECT_THAT(press(rest + reports).evicted(), ElementsAre("a")) << "the next report decides";
}

// More than a rebalancer keeps without it.
TEST(NodePressure, AsManyReportsAsThePolicyRequires) {
  std::vector<std::string> reports;
  for (int i = 0; i < 9; ++i) {
    ReportText text = kSoon;
    text.time = fmt::format("2026-01-01T11:{:02}:{:02}Z", 55 + i / 2, i % 2 * 30);
    reports.push_back(report_text("n1", text));
  }
  const std::vector<std::string> rest =
      three_nodes() + two_pods() + std::vector{report_text("n2", {.time = "2026-01-01T11:59:00Z"})};
  const std::string args = "{consecutiveReports: 9}";
  EXPECT_THAT(press(rest + reports, args).evicted(), ElementsAre("grows"));
  reports.erase(reports.begin());
  const World one_less = press(rest + reports, args);
  EXPECT_THAT(one_less.evicted(), IsEmpty());
  EXPECT_THAT(one_less.run().nodes[0].detail, HasSubstr("; in 8 of 9 reports"));
}

// It is evicted, and its memory is in the report until it ends.
TEST(NodePressure, APodThatTerminatesCountsAsLeaving) {
  const ReportText crossed{.headroom = "-100Mi",
                           .pods = with_uid("a", "150Mi") + "," + with_uid("b", "50Mi")};
  const auto evicted = [&](const std::string& metadata) {
    return press(three_nodes() +
                 std::vector{pod_text("a", "n1", {.metadata = metadata}), pod_text("b", "n1")} +
                 series("n1", crossed) + std::vector{report_text("n2")});
  };
  EXPECT_THAT(evicted("").evicted(), ElementsAre("a"));
  const World soon =
      evicted(R"(, "deletionTimestamp": "2026-01-01T12:00:20Z", "deletionGracePeriodSeconds": 30)");
  EXPECT_THAT(soon.evicted(), IsEmpty());
  EXPECT_THAT(soon.run().nodes[0].detail, HasSubstr("; 1 pods leave with 150 MiB"));
  EXPECT_THAT(evicted(R"(, "deletionTimestamp": "2026-01-01T11:49:59Z")").evicted(),
              ElementsAre("b"))
      << "a finalizer keeps it";
  EXPECT_THAT(
      evicted(
          R"(, "deletionTimestamp": "2026-01-02T11:00:00Z", "deletionGracePeriodSeconds": 86400)")
          .evicted(),
      ElementsAre("b"))
      << "its grace period is a day";
}

// The plan after one that moved the pod "gone" off n1, or not.
std::vector<std::string> after_a_move(const ReportText& report, bool moved, int seconds_ago = 60) {
  World world = press(
      three_nodes() + std::vector{pod_text("b", "n1"), report_text("n2")} + series("n1", report),
      "{}", "pacing: {memorySeconds: 3600}, ");
  MoveHistory history;
  if (moved) {
    history.push_back({"another", "n1", "default", "gone", kNow - seconds_ago * kNanosPerUnit});
  }
  world.plan = rebalance(world.policy, world.snapshot, {history, {}});
  return world.evicted();
}

TEST(NodePressure, APodThatWasMovedSinceTheReportCountsAsLeaving) {
  ReportText crossed{.headroom = "-100Mi",
                     .pods = with_uid("gone", "120Mi") + "," + with_uid("b", "50Mi")};
  EXPECT_THAT(after_a_move(crossed, true), IsEmpty());
  EXPECT_THAT(after_a_move(crossed, true, 601), ElementsAre("b"));
  // Its object may have been deleted by force, and its processes still run.
  EXPECT_THAT(after_a_move(crossed, false), ElementsAre("b"));
  crossed.headroom = "-130Mi";
  EXPECT_THAT(after_a_move(crossed, true), ElementsAre("b")) << "it does not suffice";
}

// The kubelet's UID of it is not that of the API server.
TEST(NodePressure, APodThatAnEarlierProfileEvictedCountsAsLeaving) {
  const ReportText crossed{
      .headroom = "-100Mi",
      .pods = with_uid("a", "60Mi") + "," + with_uid("b", "50Mi") + "," + with_uid("c", "40Mi")};
  World world = press(three_nodes() +
                      std::vector{pod_text("a", "n1"), pod_text("b", "n1"), pod_text("c", "n1")} +
                      series("n1", crossed) + std::vector{report_text("n2")});
  ASSERT_THAT(world.evicted(), ElementsAre("a", "b"));
  world.policy.profiles.push_back(world.policy.profiles.front());
  world.plan = rebalance(world.policy, world.snapshot);
  EXPECT_THAT(world.evicted(), ElementsAre("a", "b"));
  EXPECT_THAT(world.plan.profiles.at(1).plugins.at(0).nodes.at(0).detail,
              HasSubstr("2 pods leave with 110 MiB"));
}

TEST(NodePressure, AStaticPodDoesNotLeave) {
  std::string etcd = with_uid("etcd", "2Gi");
  etcd.replace(etcd.find("uid-etcd"), 8, "0123abcd");
  const ReportText crossed{.headroom = "-100Mi", .pods = etcd + "," + with_uid("b", "150Mi")};
  const char* const mirror = R"(, "annotations": {"kubernetes.io/config.mirror": "0123abcd"})";
  EXPECT_THAT(press(three_nodes() +
                    std::vector{pod_text("etcd", "n1", {.metadata = mirror}), pod_text("b", "n1"),
                                report_text("n2")} +
                    series("n1", crossed))
                  .evicted(),
              ElementsAre("b"));
}

TEST(NodePressure, WhileAMovedPodLeavesAStallMovesNoOther) {
  const ReportText stalls{.full = "10.5",
                          .pods = with_uid("gone", "1Mi") + "," + with_uid("b", "50Mi")};
  EXPECT_THAT(after_a_move(stalls, true), IsEmpty());
  EXPECT_THAT(after_a_move(stalls, false), ElementsAre("b"));
  // A tenant deletes small pods without end.
  const char* const deleted = R"(, "deletionTimestamp": "2026-01-01T12:00:20Z")";
  EXPECT_THAT(press(three_nodes() +
                    std::vector{pod_text("gone", "n1", {.metadata = deleted}), pod_text("b", "n1"),
                                report_text("n2")} +
                    series("n1", stalls))
                  .evicted(),
              ElementsAre("b"));
}

TEST(NodePressure, ADestinationStaysFarFromItsThresholds) {
  const ReportText crossed{.headroom = "-1", .pods = reported_pod("big", "256Mi")};
  const std::vector<std::string> cluster = three_nodes() + two_pods() + series("n1", crossed);
  const auto refused = [&](const ReportText& text, const std::string& args = "{}") {
    const World world = press(cluster + std::vector{report_text("n2", text)}, args);
    EXPECT_EQ(world.plan.evictions.empty(), false);
    return !world.plan.evictions.empty() && !world.plan.evictions[0].refused.empty();
  };
  // 256 MiB for the pod, and a tenth of 4 GiB.
  EXPECT_FALSE(refused({.headroom = "1300Mi"}));
  EXPECT_TRUE(refused({.headroom = "665Mi"}));
  EXPECT_FALSE(refused({.headroom = "1500Mi"}, "{destinationHeadroomPercent: 30}"));
  EXPECT_TRUE(refused({.headroom = "1480Mi"}, "{destinationHeadroomPercent: 30}"));
  // At its growth it must last for twice the time.
  EXPECT_TRUE(refused({.headroom = "1300Mi", .growth = "1Mi"}));
}

// It could be the one that fills the destination.
TEST(NodePressure, APodOfUnknownGrowthStays) {
  const std::string unknown = R"({"namespace": "default", "name": "big", "workingSet": "512Mi"})";
  const auto press_with = [](const std::string& pods) {
    return press(three_nodes() + two_pods() + series("n1", {.headroom = "-100Mi", .pods = pods}) +
                 std::vector{report_text("n2")});
  };
  const World known =
      press_with(reported_pod("big", "512Mi") + "," + reported_pod("grows", "256Mi", "-1Ki"));
  EXPECT_THAT(known.evicted(), ElementsAre("big")) << "it is constant";
  const World world = press_with(unknown + "," + reported_pod("grows", "256Mi", "-1Ki"));
  EXPECT_THAT(world.evicted(), ElementsAre("grows"));
  EXPECT_THAT(world.find("big")->filter, ElementsAre("the growth of the pod is unknown"));
}

TEST(NodePressure, WhatIsBookedCountsForTheNextPod) {
  const ReportText crossed{.headroom = "-100Mi",
                           .pods = reported_pod("a", "60Mi") + "," + reported_pod("b", "50Mi")};
  const World world =
      press(three_nodes() + std::vector{pod_text("a", "n1"), pod_text("b", "n1")} +
            series("n1", crossed) + std::vector{report_text("n2", {.headroom = "500Mi"})});
  EXPECT_THAT(world.evicted(), ElementsAre("a"));
  ASSERT_EQ(world.plan.evictions.size(), 2U);
  EXPECT_EQ(world.plan.evictions[1].refused, "no other node has room for it");
}

TEST(NodePressure, WhatAnEarlierPlanBookedCounts) {
  const ReportText crossed{.headroom = "-10Mi", .pods = reported_pod("a", "60Mi")};
  const std::vector<std::string> cluster = three_nodes() + std::vector{pod_text("a", "n1")} +
                                           series("n1", crossed) +
                                           std::vector{report_text("n2", {.headroom = "500Mi"})};
  World world = press(cluster, "{}", "pacing: {memorySeconds: 3600}, ");
  ASSERT_THAT(world.evicted(), ElementsAre("a"));
  ASSERT_TRUE(world.plan.history);
  const Move booked = world.plan.history->moves.at(0);
  EXPECT_EQ(booked.destination, "n2");
  EXPECT_EQ(counted(kMemory, booked.working_set), 60 << 20);
  Move earlier = booked;
  earlier.owner = "another";
  earlier.time_ns = kNow - std::int64_t{60} * kNanosPerUnit;
  const auto evicts = [&world](const Move& move) {
    world.plan = rebalance(world.policy, world.snapshot, {{move}, {}});
    return !world.evicted().empty();
  };
  EXPECT_FALSE(evicts(earlier)) << "both would be more than a tenth of n2 allows";
  earlier.time_ns = kNow - kBookingSeconds * kNanosPerUnit;
  EXPECT_TRUE(evicts(earlier));
}

TEST(NodePressure, APodWithoutMeasurementStays) {
  const ReportText unknown{.headroom = "-1", .pods = reported_pod("big", "512Mi")};
  const World world =
      press(three_nodes() + two_pods() + series("n1", unknown) + std::vector{report_text("n2")});
  EXPECT_THAT(world.evicted(), ElementsAre("big"));
  EXPECT_THAT(world.find("grows")->filter, ElementsAre("pod is not in the report of its node"));
}

TEST(NodePressure, PriorityComesBeforeGrowth) {
  const auto cluster = three_nodes() +
                       std::vector{pod_text("big", "n1", {.priority = "1"}),
                                   pod_text("grows", "n1", {.priority = "2"})} +
                       series("n1", kSoon) + std::vector{report_text("n2")};
  EXPECT_THAT(press(cluster).evicted(), ElementsAre("big"));
}

}  // namespace
}  // namespace forestall::rebalance::test
