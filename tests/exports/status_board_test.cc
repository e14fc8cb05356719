// SPDX-License-Identifier: Apache-2.0
#include "exports/status_board.h"

#include <gtest/gtest.h>

namespace forestall::exports {
namespace {

Record decided(std::uint64_t sequence) {
  Record record;
  record.sequence = sequence;
  record.decision.action = Action::kill;
  record.decision.reason = Reason::threshold_met;
  record.decision.considered.emplace_back().sample.workload.name = "leak";
  record.decision.evictions.emplace_back();
  return record;
}

TEST(StatusBoard, IsEmptyBeforeTheFirstEvaluation) {
  const StatusBoard board;
  const Status status = board.status();
  EXPECT_FALSE(status.next_evaluation);
  EXPECT_FALSE(status.config);
}

TEST(StatusBoard, ShowsTheLastEvaluation) {
  StatusBoard board;
  Config config;
  config.dry_run = true;
  board.set_config(config);
  Decision decision;
  decision.evidence.resize(StatusBoard::kEvidenceMax + 3);
  decision.evidence[0].subject = "node";
  board.evaluated({Observation(), decision, from_ns(5)});
  const Status status = board.status();
  EXPECT_EQ(status.next_evaluation, from_ns(5));
  EXPECT_TRUE(status.config->dry_run);
  EXPECT_EQ(status.evidence.size(), StatusBoard::kEvidenceMax);
  EXPECT_EQ(status.evidence_left_out, 3U);
  EXPECT_EQ(status.evidence[0].subject, "node");
}

TEST(StatusBoard, AttachesAnOutcomeToItsDecision) {
  StatusBoard board;
  Record record = decided(1);
  board.write(record);
  EXPECT_FALSE(board.status().decisions.back().state);
  record.outcome.emplace().state = KillState::released;
  record.outcome->freed = mib(3);
  board.write(record);
  const Status status = board.status();
  ASSERT_EQ(status.decisions.size(), 1U);
  EXPECT_EQ(status.decisions[0].state, KillState::released);
  EXPECT_EQ(status.decisions[0].freed, mib(3));
  EXPECT_EQ(status.decisions[0].victim, "leak");
}

// Nothing was signalled, so nothing is in flight.
TEST(StatusBoard, ADryRunHasNoState) {
  StatusBoard board;
  Record record = decided(1);
  record.outcome.emplace().state = KillState::in_flight;
  record.outcome->dry_run = true;
  board.write(record);
  const Status status = board.status();
  ASSERT_EQ(status.decisions.size(), 1U);
  EXPECT_TRUE(status.decisions[0].dry_run);
  EXPECT_FALSE(status.decisions[0].state);
}

TEST(StatusBoard, KeepsTheLastDecisions) {
  StatusBoard board;
  for (std::uint64_t i = 1; i <= 20; ++i) board.write(decided(i));
  const Status status = board.status();
  ASSERT_EQ(status.decisions.size(), StatusBoard::kDecisionsMax);
  EXPECT_EQ(status.decisions.front().sequence, 5U);
  EXPECT_EQ(status.decisions.back().sequence, 20U);
}

TEST(StatusBoard, MarksAKernelKill) {
  StatusBoard board;
  Record record;
  record.sequence = 3;
  record.oom_kill.emplace().event.comm = {'h', 'o', 'g'};
  board.write(record);
  EXPECT_TRUE(board.status().decisions[0].by_kernel);
  EXPECT_EQ(board.status().decisions[0].victim, "hog");
}

}  // namespace
}  // namespace forestall::exports
