// SPDX-License-Identifier: Apache-2.0
#include "service/recent_kills.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "forestall/v1/service.pb.h"

namespace forestall::service {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::Record kill(std::uint64_t sequence) {
  v1::Record record;
  record.set_sequence(sequence);
  record.mutable_begun()->set_state(v1::KillProgress::IN_FLIGHT);
  return record;
}

v1::Record record_in(const wire::GrpcFrame& frame) {
  v1::WatchRecordsResponse response;
  // After the five bytes of gRPC's frame.
  EXPECT_TRUE(response.ParseFromString(frame->substr(5)));
  return response.record();
}

class RecentKillsTest : public ::testing::Test {
 protected:
  std::vector<std::uint64_t> since(Duration longest) {
    std::vector<std::uint64_t> all;
    for (const auto& frame : kills_.since(longest, now_)) {
      all.push_back(record_in(frame).sequence());
    }
    return all;
  }
  MonotonicTime now_ = from_ns(1'000'000'000'000);
  RecentKills kills_;
};

TEST_F(RecentKillsTest, AreThoseOfARequestedTime) {
  kills_.add(kill(1), now_);
  now_ += seconds(40);
  kills_.add(kill(2), now_);
  now_ += seconds(40);
  EXPECT_THAT(since(minutes(1)), ElementsAre(2));
  EXPECT_THAT(since(minutes(2)), ElementsAre(1, 2));
  now_ += minutes(10);
  EXPECT_THAT(since(minutes(60)), IsEmpty());
}

TEST_F(RecentKillsTest, HaveTheOutcomeInPlaceOfTheBegin) {
  kills_.add(kill(1), now_);
  kills_.add(kill(2), now_);
  v1::Record ended = kill(1);
  ended.mutable_outcome()->set_signalled_ns(5);
  kills_.add(ended, now_);
  EXPECT_THAT(since(minutes(1)), ElementsAre(2, 1));
}

TEST_F(RecentKillsTest, AreNoDryRunsAndNoKillsByTheKernel) {
  v1::Record record = kill(1);
  record.mutable_begun()->set_dry_run(true);
  kills_.add(record, now_);
  record = kill(2);
  record.mutable_begun()->set_state(v1::KillProgress::FAILED);
  kills_.add(record, now_);
  record = kill(3);
  record.mutable_oom_kill();
  kills_.add(record, now_);
  record = kill(4);
  record.mutable_outcome()->set_dry_run(true);
  record.mutable_outcome()->set_signalled_ns(1);
  kills_.add(record, now_);
  record = kill(5);
  record.mutable_outcome();
  kills_.add(record, now_);
  record.Clear();
  kills_.add(record, now_);
  EXPECT_THAT(since(minutes(1)), IsEmpty());
}

TEST_F(RecentKillsTest, KeepTheVictimOfAThousandCandidates) {
  v1::Record record = kill(1);
  v1::Decision& decision = *record.mutable_decision();
  record.mutable_observation()->add_notes();
  for (int i = 0; i < 1'000; ++i) {
    decision.add_considered()->mutable_sample()->mutable_workload()->set_name(std::to_string(i));
  }
  decision.add_evictions()->set_candidate(700);
  decision.add_evictions()->set_candidate(3);
  decision.add_evictions()->set_candidate(1'000);  // of no candidate
  kills_.add(record, now_);
  const v1::Record kept = record_in(kills_.since(minutes(1), now_).front());
  EXPECT_FALSE(kept.has_observation());
  ASSERT_EQ(kept.decision().considered_size(), 2);
  EXPECT_EQ(kept.decision().considered(0).sample().workload().name(), "700");
  EXPECT_EQ(kept.decision().evictions(0).candidate(), 0U);
  EXPECT_EQ(kept.decision().considered(1).sample().workload().name(), "3");
  EXPECT_EQ(kept.decision().evictions(1).candidate(), 1U);
  EXPECT_EQ(kept.decision().evictions(2).candidate(), 1'000U);
}

TEST_F(RecentKillsTest, AreBounded) {
  for (std::uint64_t i = 0; i < 1'000; ++i) kills_.add(kill(i), now_);
  EXPECT_EQ(since(minutes(1)).size(), RecentKills::kMax);
  EXPECT_EQ(since(minutes(1)).back(), 999U);
  for (std::uint64_t i = 0; i < 20; ++i) {
    v1::Record large = kill(2'000 + i);
    large.mutable_decision()->add_evictions()->set_message(std::string(100'000, 'x'));
    kills_.add(large, now_);
  }
  EXPECT_EQ(since(minutes(1)).size(), 10U);
  v1::Record larger = kill(3'000);
  larger.mutable_decision()->add_evictions()->set_message(
      std::string(RecentKills::kBytesMax + 1, 'x'));
  kills_.add(larger, now_);
  EXPECT_THAT(since(minutes(1)), IsEmpty());
}

}  // namespace
}  // namespace forestall::service
