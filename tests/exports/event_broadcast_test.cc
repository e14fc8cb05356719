// SPDX-License-Identifier: Apache-2.0
#include "exports/event_broadcast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>

namespace forestall::exports {
namespace {

bool has_news(const EventBroadcast& broadcast) {
  pollfd fd{broadcast.fd(), POLLIN, 0};
  return ::poll(&fd, 1, 0) == 1;
}

Record record_of(std::uint64_t sequence, std::int64_t at_ns) {
  Record record;
  record.sequence = sequence;
  record.stages.crossed = MonotonicTime(Duration(at_ns));
  return record;
}

class EventBroadcastTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = EventBroadcast::create();
    ASSERT_TRUE(made.ok());
    broadcast_ = std::move(*made);
  }
  void evaluate(std::int64_t at_ns, const std::vector<bool>& met = {}) {
    Observation observation;
    observation.wake.at = MonotonicTime(Duration(at_ns));
    Decision decision;
    for (std::size_t i = 0; i < met.size(); ++i) {
      Evidence& each = decision.evidence.emplace_back();
      each.cgroup = {i + 1};
      each.met = met[i];
    }
    // As in the policy.
    std::ranges::stable_partition(decision.evidence, &Evidence::met);
    broadcast_->evaluated({observation, decision, MonotonicTime()});
  }
  // What was handed over: a record as its number, an evaluation as minus its time.
  std::vector<std::int64_t> drain() {
    std::vector<std::int64_t> reported;
    broadcast_->drain([&](const Record& each) { reported.push_back(std::int64_t(each.sequence)); },
                      [&](const EvaluationNote& each) {
                        reported.push_back(-to_ns(each.woken));
                        crossed_ = each.crossed;
                      });
    return reported;
  }

  std::unique_ptr<EventBroadcast> broadcast_;
  bool crossed_ = false;
};

TEST_F(EventBroadcastTest, CopiesNothingWithoutSubscribers) {
  broadcast_->write(record_of(1, 1));
  evaluate(1);
  EXPECT_FALSE(has_news(*broadcast_));
  EXPECT_TRUE(drain().empty());
  EXPECT_EQ(broadcast_->take_dropped(), 0U);
}

TEST_F(EventBroadcastTest, HandsOverKillsWithoutSubscribersIfTheyAreWanted) {
  Record kill = record_of(2, 1);
  kill.begun = BegunKill{};
  broadcast_->write(kill);
  EXPECT_FALSE(has_news(*broadcast_));
  broadcast_->always_publish_kills();
  broadcast_->write(record_of(1, 1));
  broadcast_->write(kill);
  evaluate(1);
  EXPECT_THAT(drain(), testing::ElementsAre(2));
}

TEST_F(EventBroadcastTest, HandsOverInOrder) {
  broadcast_->set_watchers(1);
  evaluate(1);
  evaluate(5);
  broadcast_->write(record_of(7, 5));
  evaluate(9);
  broadcast_->write(record_of(8, 9));
  EXPECT_TRUE(has_news(*broadcast_));
  EXPECT_THAT(drain(), testing::ElementsAre(-1, -5, 7, -9, 8));
  EXPECT_FALSE(has_news(*broadcast_));
}

TEST_F(EventBroadcastTest, CountsDroppedItems) {
  broadcast_->set_watchers(1);
  for (std::uint64_t i = 0; i < EventBroadcast::kRecords + 3; ++i)
    broadcast_->write(record_of(i, 1));
  EXPECT_EQ(drain().size(), EventBroadcast::kRecords);
  EXPECT_EQ(broadcast_->take_dropped(), 3U);
  EXPECT_EQ(broadcast_->take_dropped(), 0U);
}

TEST_F(EventBroadcastTest, ReportsThatOtherThresholdsAreMet) {
  broadcast_->set_watchers(1);
  const auto crosses = [this](const std::vector<bool>& met) {
    evaluate(1, met);
    drain();
    return crossed_;
  };
  EXPECT_TRUE(crosses({false, false})) << "the first evaluation";
  EXPECT_FALSE(crosses({false, false}));
  EXPECT_TRUE(crosses({true, false}));
  EXPECT_FALSE(crosses({true, false}));
  EXPECT_TRUE(crosses({false, true})) << "another one, in the same place";
  EXPECT_TRUE(crosses({true, true}));
  EXPECT_TRUE(crosses({true, true, false})) << "a new one";
}

TEST_F(EventBroadcastTest, FreesTheSlotsAfterTheLastSubscriber) {
  broadcast_->set_watchers(1);
  Record record = record_of(1, 1);
  const auto pod = std::make_shared<const Pod>();
  record.observation.workloads.emplace().emplace_back().workload.pod = pod;
  broadcast_->write(record);
  record = Record();
  broadcast_->set_watchers(0);
  evaluate(1);
  EXPECT_EQ(pod.use_count(), 2) << "not read yet";
  drain();
  evaluate(2);
  EXPECT_EQ(pod.use_count(), 1);
}

// Two threads, for TSan.
TEST_F(EventBroadcastTest, CountsEveryLoss) {
  constexpr std::uint64_t kAll = 20'000;
  broadcast_->set_watchers(1);
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (std::uint64_t i = 1; i <= kAll; ++i) broadcast_->write(record_of(i, std::int64_t(i)));
    over = true;
  });
  std::uint64_t seen = 0;
  std::uint64_t last = 0;
  const auto read = [&] {
    for (const std::int64_t each : drain()) {
      EXPECT_GT(each, std::int64_t(last));
      last = std::uint64_t(each);
      ++seen;
    }
  };
  while (!over) read();
  writer.join();
  read();
  EXPECT_EQ(seen + broadcast_->take_dropped(), kAll);
  EXPECT_GT(seen, 0U);
}

}  // namespace
}  // namespace forestall::exports
