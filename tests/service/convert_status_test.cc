// SPDX-License-Identifier: Apache-2.0
#include "service/convert_status.h"

#include <gtest/gtest.h>

namespace forestall::test {
namespace {

TEST(ConvertStatus, ContainsLossesAndDroppedClients) {
  exports::DropCounts drops;
  const std::vector<BpfCounter> counters{{"agent", "dropped", "charge", true, 1},
                                         {"guard", "failures", "read", true, 2},
                                         {"agent", "ticks", {}, false, 9}};
  drops.bpf.set(counters);
  drops.late_oom_events = 3;
  drops.recording_entries = 4;
  drops.dropped = 5;
  drops.live_viewers = 6;
  wire::GrpcCounts grpc;
  grpc.slow_readers = 7;
  exports::LoopCounts counts;
  counts.evaluations = 10;
  counts.kills = 11;
  counts.dry_run_kills = 12;
  counts.kernel_oom_kills = 13;
  counts.rule_settings_not_undone = 14;
  counts.reclaims.add_write("r", "/a", mib(3), true);
  counts.reclaims.add_back_off("r", "/a");
  counts.reclaims.add_dropped("r", "/a");
  const v1::AgentStatus status =
      service::to_proto(service::AgentFacts(), exports::Status(), exports::StageHistograms(),
                        counts, drops, grpc, MonotonicTime());
  EXPECT_EQ(status.evaluations(), 10U);
  EXPECT_EQ(status.kills(), 11U);
  EXPECT_EQ(status.dry_run_kills(), 12U);
  EXPECT_EQ(status.kernel_oom_kills(), 13U);
  EXPECT_EQ(status.rule_settings_not_undone(), 14U);
  ASSERT_EQ(status.reclaimed_size(), 1);
  EXPECT_EQ(status.reclaimed(0).ruleset(), "r");
  EXPECT_EQ(status.reclaimed(0).cgroup(), "/a");
  EXPECT_EQ(status.reclaimed(0).writes(), 1U);
  EXPECT_EQ(status.reclaimed(0).reclaimed_bytes(), 3U << 20U);
  EXPECT_EQ(status.reclaimed(0).failures(), 1U);
  EXPECT_EQ(status.reclaimed(0).back_offs(), 1U);
  EXPECT_EQ(status.reclaimed(0).dropped(), 1U);
  EXPECT_EQ(status.drops().log_lines(), 0U);
  EXPECT_EQ(status.drops().bpf_events(), 1U);
  EXPECT_EQ(status.drops().bpf_failures(), 2U);
  ASSERT_EQ(status.bpf_counters_size(), 3);
  EXPECT_EQ(status.bpf_counters(0).object(), "agent");
  EXPECT_EQ(status.bpf_counters(0).counter(), "dropped");
  EXPECT_EQ(status.bpf_counters(0).kind(), "charge");
  EXPECT_EQ(status.bpf_counters(0).value(), 1U);
  EXPECT_TRUE(status.bpf_counters(0).loss());
  EXPECT_FALSE(status.bpf_counters(2).has_kind());
  EXPECT_FALSE(status.bpf_counters(2).loss());
  EXPECT_EQ(status.drops().late_oom_events(), 3U);
  EXPECT_EQ(status.drops().recording_entries(), 4U);
  EXPECT_EQ(status.drops().watch_messages(), 5U);
  EXPECT_EQ(status.drops().live_viewers(), 6U);
  EXPECT_EQ(status.drops().slow_readers(), 7U);
}

TEST(ConvertStatus, ContainsTheLoopsStretches) {
  exports::LoopCounts counts;
  counts.work.begin(SystemClock().now());
  counts.work.end();
  const v1::AgentStatus status =
      service::to_proto(service::AgentFacts(), exports::Status(), exports::StageHistograms(),
                        counts, exports::DropCounts(), wire::GrpcCounts(), MonotonicTime());
  EXPECT_EQ(status.loop().stretches(), 1U);
  ASSERT_EQ(status.loop().work_size(), static_cast<int>(exports::kLoopWorkCount));
  EXPECT_EQ(status.loop().work(0).work(), "other");
  EXPECT_EQ(status.loop().work(0).in_longest_ns(), status.loop().longest_ns());
}

}  // namespace
}  // namespace forestall::test
