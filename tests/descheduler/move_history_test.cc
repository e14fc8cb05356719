// SPDX-License-Identifier: Apache-2.0
#include "descheduler/move_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forestall::descheduler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(MoveHistory, ReadsAPlanOrItsHistory) {
  const std::string history =
      R"({"moves": [{"owner": "o", "node": "n", "namespace": "s", "pod": "p",
                     "time": "1970-01-01T00:00:01.5Z"}]})";
  for (const std::string& text : {history, R"({"profiles": [], "history": )" + history + "}"}) {
    const auto moves = parse_plan_history(text);
    ASSERT_TRUE(moves) << moves.error().text();
    EXPECT_THAT(moves->waiting, IsEmpty()) << "as older versions print it";
    EXPECT_THAT(moves->moves, ElementsAre(rebalance::Move{"o", "n", "s", "p", 1'500'000'000}));
  }
}

TEST(MoveHistory, ReadsWhatIsBooked) {
  const auto moves = parse_plan_history(
      R"({"moves": [{"owner": "o", "node": "n", "namespace": "s",
                     "time": "1970-01-01T00:00:01Z", "destination": "d",
                     "cpu": 250, "memory": 1024, "cpuUsage": 125, "workingSet": 2048,
                     "growthPerSecond": 3, "existed": ["u", "v"]}]})");
  ASSERT_TRUE(moves) << moves.error().text();
  const rebalance::Move& move = moves->moves.at(0);
  EXPECT_EQ(move.destination, "d");
  EXPECT_EQ(rebalance::counted(rebalance::kCpu, move.cpu), 250);
  EXPECT_EQ(rebalance::counted(rebalance::kMemory, move.memory), 1024);
  EXPECT_EQ(rebalance::counted(rebalance::kCpu, move.cpu_usage), 125);
  EXPECT_EQ(rebalance::counted(rebalance::kMemory, move.working_set), 2048);
  EXPECT_EQ(rebalance::counted(rebalance::kMemory, move.growth), 3);
  EXPECT_THAT(move.existed, ElementsAre("u", "v"));
}

TEST(MoveHistory, ReadsWhatWaits) {
  const auto history = parse_plan_history(
      R"({"moves": [], "waiting": [{"profile": "a", "plugin": "b", "workload": "w",
          "namespace": "s", "pod": "p", "node": "n", "limit": "node",
          "since": "1970-01-01T00:00:02Z"}]})");
  ASSERT_TRUE(history) << history.error().text();
  EXPECT_THAT(history->waiting,
              ElementsAre(rebalance::WaitingMove{"a", "b", "w", "s", "p", "n",
                                                 rebalance::EvictionLimit::node, 2'000'000'000}));
}

TEST(MoveHistory, NamesWhatIsWrong) {
  const auto problem = [](const std::string& text) {
    const auto moves = parse_plan_history(text);
    return moves ? std::string("none") : moves.error().text();
  };
  EXPECT_THAT(problem("{}"), HasSubstr("'moves' is missing"));
  EXPECT_THAT(problem(R"({"moves": [{"node": "n"}]})"), HasSubstr("moves[0]: 'owner' is missing"));
  EXPECT_THAT(problem(R"({"moves": [{"owner": "o", "node": "n"}]})"),
              HasSubstr("moves[0]: 'namespace' is missing"));
  EXPECT_THAT(problem(R"({"moves": [{"owner": "o", "node": "n", "namespace": ""}]})"),
              HasSubstr("moves[0].namespace: expected a namespace, found ''"));
  EXPECT_THAT(problem(R"({"moves": [{"owner": "o", "node": "n", "namespace": "s",
                          "time": "noon"}]})"),
              HasSubstr("moves[0].time: expected a time (RFC 3339), found 'noon'"));
  EXPECT_THAT(problem(R"({"moves": [{"owner": "o", "node": "n", "namespace": "s",
                          "time": "1970-01-01T00:00:01Z", "cpu": -1}]})"),
              HasSubstr("moves[0].cpu: expected an amount, found -1"));
  EXPECT_THAT(problem("[}"), HasSubstr("1:"));
  EXPECT_THAT(problem(R"({"moves": [], "waiting": [{"profile": "a"}]})"),
              HasSubstr("waiting[0]: 'plugin' is missing"));
  EXPECT_THAT(problem(R"({"moves": [], "waiting": [{"profile": "a", "plugin": "b",
                          "workload": "w", "limit": "cluster"}]})"),
              HasSubstr("waiting[0].limit: expected 'total', 'node', 'namespace' or 'budget', "
                        "found 'cluster'"));
}

}  // namespace
}  // namespace forestall::descheduler
