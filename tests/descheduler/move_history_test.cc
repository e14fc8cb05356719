// SPDX-License-Identifier: Apache-2.0
#include "descheduler/move_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forestall::descheduler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(MoveHistory, ReadsAPlanOrItsHistory) {
  const std::string history =
      R"({"moves": [{"owner": "o", "node": "n", "namespace": "s", "pod": "p",
                     "time": "1970-01-01T00:00:01.5Z"}]})";
  for (const std::string& text : {history, R"({"profiles": [], "history": )" + history + "}"}) {
    const auto moves = parse_move_history(text);
    ASSERT_TRUE(moves) << moves.error().text();
    EXPECT_THAT(*moves, ElementsAre(rebalance::Move{"o", "n", "s", "p", 1'500'000'000}));
  }
}

TEST(MoveHistory, ReadsWhatIsBooked) {
  const auto moves = parse_move_history(
      R"({"moves": [{"owner": "o", "node": "n", "time": "1970-01-01T00:00:01Z", "destination": "d",
                     "cpu": 250, "memory": 1024, "cpuUsage": 125, "workingSet": 2048,
                     "growthPerSecond": 3, "existed": ["u", "v"]}]})");
  ASSERT_TRUE(moves) << moves.error().text();
  const rebalance::Move& move = moves->at(0);
  EXPECT_EQ(move.destination, "d");
  EXPECT_EQ(rebalance::counted(rebalance::kCpu, move.cpu), 250);
  EXPECT_EQ(rebalance::counted(rebalance::kMemory, move.memory), 1024);
  EXPECT_EQ(rebalance::counted(rebalance::kCpu, move.cpu_usage), 125);
  EXPECT_EQ(rebalance::counted(rebalance::kMemory, move.working_set), 2048);
  EXPECT_EQ(rebalance::counted(rebalance::kMemory, move.growth), 3);
  EXPECT_THAT(move.existed, ElementsAre("u", "v"));
}

TEST(MoveHistory, NamesWhatIsWrong) {
  const auto problem = [](const std::string& text) {
    const auto moves = parse_move_history(text);
    return moves ? std::string("none") : moves.error().text();
  };
  EXPECT_THAT(problem("{}"), HasSubstr("'moves' is missing"));
  EXPECT_THAT(problem(R"({"moves": [{"node": "n"}]})"), HasSubstr("moves[0]: 'owner' is missing"));
  EXPECT_THAT(problem(R"({"moves": [{"owner": "o", "node": "n", "time": "noon"}]})"),
              HasSubstr("moves[0].time: expected a time (RFC 3339), found 'noon'"));
  EXPECT_THAT(problem(R"({"moves": [{"owner": "o", "node": "n", "time": "1970-01-01T00:00:01Z",
                          "cpu": -1}]})"),
              HasSubstr("moves[0].cpu: expected an amount, found -1"));
  EXPECT_THAT(problem("[}"), HasSubstr("1:"));
}

}  // namespace
}  // namespace forestall::descheduler
