// SPDX-License-Identifier: Apache-2.0
#include "service/record_stream.h"

#include <gtest/gtest.h>

namespace forestall::service {
namespace {

Record kill_record(bool at_once) {
  Record record;
  record.decision.action = Action::kill;
  Eviction eviction;
  eviction.at_once = at_once;
  eviction.grace = std::chrono::seconds(30);
  record.decision.evictions = {eviction};
  return record;
}

TEST(RecordStream, AKillWaitsForItsOutcomeUnlessItHasAGrace) {
  Record at_once = kill_record(true);
  EXPECT_FALSE(RecordStream::takes(at_once));
  at_once.outcome.emplace();
  EXPECT_TRUE(RecordStream::takes(at_once));
  EXPECT_TRUE(RecordStream::takes(kill_record(false)));
  EXPECT_TRUE(RecordStream::takes(Record()));
}

// The kernel killed between our decision and the next evaluation: it must be reported.
TEST(RecordStream, AlwaysWritesAKillByTheKernel) {
  Record record = kill_record(true);
  record.oom_kill.emplace();
  EXPECT_TRUE(RecordStream::takes(record));
}

}  // namespace
}  // namespace forestall::service
