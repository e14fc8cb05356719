// SPDX-License-Identifier: Apache-2.0
#include "api/convert_status.h"

#include <gtest/gtest.h>

namespace forestall::test {
namespace {

TEST(ConvertStatus, ContainsLossesAndDroppedClients) {
  exports::DropCounts drops;
  drops.bpf_events = 1;
  drops.bpf_failures = 2;
  drops.late_tellings = 3;
  drops.recording_entries = 4;
  drops.untold = 5;
  drops.live_viewers = 6;
  exports::GrpcCounts grpc;
  grpc.slow_readers = 7;
  const v1::AgentStatus status =
      api::to_proto(api::AgentFacts(), exports::Status(), exports::StageHistograms(), drops, grpc,
                    MonotonicTime());
  EXPECT_EQ(status.drops().log_lines(), 0U);
  EXPECT_EQ(status.drops().bpf_events(), 1U);
  EXPECT_EQ(status.drops().bpf_failures(), 2U);
  EXPECT_EQ(status.drops().late_tellings(), 3U);
  EXPECT_EQ(status.drops().recording_entries(), 4U);
  EXPECT_EQ(status.drops().watch_messages(), 5U);
  EXPECT_EQ(status.drops().live_viewers(), 6U);
  EXPECT_EQ(status.drops().slow_readers(), 7U);
}

}  // namespace
}  // namespace forestall::test
