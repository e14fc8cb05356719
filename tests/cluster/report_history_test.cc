// SPDX-License-Identifier: Apache-2.0
#include "cluster/report_history.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "support/manual_clock.h"

namespace forestall::cluster {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;

class ReportHistoryTest : public ::testing::Test {
 protected:
  // A list 30 s after the last one, with the time of each node's report.
  void list(const std::map<std::string, std::int64_t>& times) {
    clock_.advance(seconds(30));
    last_ = times;
    history_.add(reports(times), clock_.now());
  }
  static rebalance::Snapshot reports(const std::map<std::string, std::int64_t>& times) {
    rebalance::Snapshot list;
    for (const auto& [node, time] : times) {
      rebalance::NodeReport& report = list.reports.emplace_back();
      report.node = list.texts->keep(node);
      report.time_ns = time;
    }
    return list;
  }
  // With the last list.
  [[nodiscard]] std::vector<std::string> kept() const {
    rebalance::Snapshot snapshot = reports(last_);
    return added_to(snapshot);
  }
  // "NODE@TIME" of all reports.
  std::vector<std::string> added_to(rebalance::Snapshot& snapshot) const {
    history_.add_to(snapshot);
    std::vector<std::string> all;
    for (const rebalance::NodeReport& each : snapshot.reports) {
      all.push_back(std::string(each.node) + '@' + std::to_string(each.time_ns));
    }
    return all;
  }

  test::ManualClock clock_;
  std::map<std::string, std::int64_t> last_;
  ReportHistory history_{3, seconds(200)};
};

TEST_F(ReportHistoryTest, KeepsTheLastReportsOfANode) {
  for (std::int64_t time = 1; time <= 4; ++time) list({{"a", time}, {"b", time}});
  EXPECT_THAT(kept(), ElementsAre("a@2", "a@3", "a@4", "b@2", "b@3", "b@4"));
}

// Each list has pods of new names: 100 KiB of them.
TEST_F(ReportHistoryTest, KeepsTheTextsOfTheKeptReportsOnly) {
  for (std::int64_t time = 1; time <= 100; ++time) {
    rebalance::Snapshot list = reports({{"a", time}});
    for (int i = 0; i < 100; ++i) {
      rebalance::ReportedPod& pod = list.reports[0].pods.emplace_back();
      pod.name = list.texts->keep(fmt::format("{}-{}-{}", time, i, std::string(1024, 'x')));
      pod.uid = list.texts->keep(fmt::format("uid-{}", i));
    }
    list.reports[0].thresholds.emplace_back().signal = list.texts->keep("memory.available");
    clock_.advance(seconds(30));
    history_.add(list, clock_.now());
  }
  EXPECT_LE(history_.texts()->bytes(), std::size_t{2} << 20) << "of 10 MiB";
  rebalance::Snapshot snapshot = reports({{"a", 100}});
  EXPECT_THAT(added_to(snapshot), ElementsAre("a@98", "a@99", "a@100"));
  const rebalance::NodeReport& kept = snapshot.reports[1];
  ASSERT_EQ(kept.pods.size(), 100U);
  EXPECT_TRUE(kept.pods[99].name.starts_with("99-99-"));
  EXPECT_EQ(kept.pods[99].uid, "uid-99");
  EXPECT_EQ(kept.thresholds[0].signal, "memory.available");
}

// Two lists have the same report if the node's clock is slower.
TEST_F(ReportHistoryTest, CountsReportsNotLists) {
  for (std::int64_t i = 0; i < 6; ++i) list({{"late", i / 2}, {"b", i}});
  EXPECT_THAT(kept(), ElementsAre("b@3", "b@4", "b@5", "late@0", "late@1", "late@2"));
}

TEST_F(ReportHistoryTest, ForgetsNodesThatAreGone) {
  list({{"a", 1}, {"b", 1}});
  list({{"b", 2}});
  EXPECT_THAT(kept(), ElementsAre("b@1", "b@2"));
}

TEST_F(ReportHistoryTest, ForgetsWhatNoListHasHadForLong) {
  list({{"a", 1}});
  for (std::int64_t i = 0; i < 6; ++i) list({{"a", 2}});
  EXPECT_THAT(kept(), ElementsAre("a@1", "a@2"));
  list({{"a", 2}});
  EXPECT_THAT(kept(), ElementsAre("a@2")) << "which the lists still have";
}

TEST_F(ReportHistoryTest, AddsWhatTheSnapshotDoesNotHave) {
  list({{"a", 1}});
  list({{"a", 2}});
  rebalance::Snapshot snapshot = reports({{"a", 2}, {"b", 7}});
  EXPECT_THAT(added_to(snapshot), ElementsAre("a@1", "a@2", "b@7"));
}

// Its list of reports failed, or the object of the node was deleted.
TEST_F(ReportHistoryTest, ANodeWithoutAReportInThePlanHasNone) {
  list({{"a", 1}, {"b", 1}});
  rebalance::Snapshot failed;
  EXPECT_THAT(added_to(failed), ElementsAre());
  rebalance::Snapshot partial = reports({{"b", 2}});
  EXPECT_THAT(added_to(partial), ElementsAre("b@1", "b@2"));
  EXPECT_THAT(kept(), ElementsAre("a@1", "b@1")) << "the next plan has them again";
}

// The newest report is the listed one, whatever time an earlier one has: a forged one may have any.
TEST_F(ReportHistoryTest, NoReportOfAFutureTimeOutlivesItsReplacement) {
  list({{"a", 1}});
  list({{"a", 100}});
  list({{"a", 2}});
  EXPECT_THAT(kept(), ElementsAre("a@1", "a@2"));
}

// They may have pods that the leader before moved.
TEST_F(ReportHistoryTest, HasNoReportsOfBeforeAFenceUntilALaterOne) {
  list({{"a", 1}, {"b", 1}});
  list({{"a", 2}, {"b", 2}});
  history_.fence();
  EXPECT_THAT(kept(), ElementsAre());
  rebalance::Snapshot early = reports({{"a", 3}});
  EXPECT_THAT(added_to(early), ElementsAre()) << "it may have been written before the fence";
  list({{"a", 3}, {"b", 2}});
  EXPECT_THAT(kept(), ElementsAre());
  rebalance::Snapshot snapshot = reports({{"a", 3}, {"b", 3}, {"new", 1}});
  EXPECT_THAT(added_to(snapshot), ElementsAre("b@1", "b@2", "b@3", "new@1"));
  list({{"a", 4}, {"b", 3}, {"new", 1}});
  EXPECT_THAT(kept(), ElementsAre("a@2", "a@3", "a@4", "b@1", "b@2", "b@3", "new@1"));
}

TEST_F(ReportHistoryTest, HasASeriesWhenEachNodeHasEnoughReports) {
  EXPECT_FALSE(history_.has_series(1)) << "there was no list";
  list({{"a", 1}, {"b", 1}});
  EXPECT_TRUE(history_.has_series(1));
  list({{"a", 2}, {"b", 1}});
  EXPECT_FALSE(history_.has_series(2)) << "b has one report, which is in two lists";
  list({{"a", 2}, {"b", 2}});
  EXPECT_TRUE(history_.has_series(2));
  list({{"a", 3}, {"b", 3}});
  EXPECT_TRUE(history_.has_series(4)) << "no more are kept";
}

TEST_F(ReportHistoryTest, HasNoSeriesAfterAFenceUntilEachNodeReportsAgain) {
  list({{"a", 1}, {"b", 1}});
  list({{"a", 2}, {"b", 2}});
  history_.fence();
  EXPECT_FALSE(history_.has_series(2));
  list({{"a", 2}, {"b", 2}});
  EXPECT_FALSE(history_.has_series(2));
  list({{"a", 3}, {"b", 2}});
  EXPECT_FALSE(history_.has_series(2));
  list({{"a", 3}, {"b", 3}});
  EXPECT_TRUE(history_.has_series(2));
}

TEST_F(ReportHistoryTest, AnEmptyListHasNoSeries) {
  list({});
  EXPECT_FALSE(history_.has_series(1)) << "agents may have just started";
  list({{"a", 1}});
  EXPECT_TRUE(history_.has_series(1));
}

}  // namespace
}  // namespace forestall::cluster
