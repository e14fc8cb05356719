// SPDX-License-Identifier: Apache-2.0
#include "exports/feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>

namespace forestall::exports {
namespace {

bool has_news(const Feed& feed) {
  pollfd fd{feed.fd(), POLLIN, 0};
  return ::poll(&fd, 1, 0) == 1;
}

Record record_of(std::uint64_t sequence, std::int64_t at_ns) {
  Record record;
  record.sequence = sequence;
  record.stages.crossed = MonotonicTime(Duration(at_ns));
  return record;
}

class FeedTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = Feed::create();
    ASSERT_TRUE(made.ok());
    feed_ = std::move(*made);
  }
  void look(std::int64_t at_ns, const std::vector<bool>& met = {}) {
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
    feed_->looked({observation, decision, MonotonicTime()});
  }
  // What was handed over: a record as its number, an evaluation as minus its time.
  std::vector<std::int64_t> drain() {
    std::vector<std::int64_t> told;
    feed_->drain([&](const Record& each) { told.push_back(std::int64_t(each.sequence)); },
                 [&](const LookNote& each) {
                   told.push_back(-to_ns(each.woken));
                   crossed_ = each.crossed;
                 });
    return told;
  }

  std::unique_ptr<Feed> feed_;
  bool crossed_ = false;
};

TEST_F(FeedTest, CopiesNothingWithoutSubscribers) {
  feed_->write(record_of(1, 1));
  look(1);
  EXPECT_FALSE(has_news(*feed_));
  EXPECT_TRUE(drain().empty());
  EXPECT_EQ(feed_->take_dropped(), 0U);
}

TEST_F(FeedTest, HandsOverInOrder) {
  feed_->set_watchers(1);
  look(1);
  look(5);
  feed_->write(record_of(7, 5));
  look(9);
  feed_->write(record_of(8, 9));
  EXPECT_TRUE(has_news(*feed_));
  EXPECT_THAT(drain(), testing::ElementsAre(-1, -5, 7, -9, 8));
  EXPECT_FALSE(has_news(*feed_));
}

TEST_F(FeedTest, CountsDroppedItems) {
  feed_->set_watchers(1);
  for (std::uint64_t i = 0; i < Feed::kRecords + 3; ++i) feed_->write(record_of(i, 1));
  EXPECT_EQ(drain().size(), Feed::kRecords);
  EXPECT_EQ(feed_->take_dropped(), 3U);
  EXPECT_EQ(feed_->take_dropped(), 0U);
}

TEST_F(FeedTest, ReportsThatOtherThresholdsAreMet) {
  feed_->set_watchers(1);
  const auto crosses = [this](const std::vector<bool>& met) {
    look(1, met);
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

TEST_F(FeedTest, FreesTheSlotsAfterTheLastSubscriber) {
  feed_->set_watchers(1);
  Record record = record_of(1, 1);
  const auto pod = std::make_shared<const Pod>();
  record.observation.workloads.emplace().emplace_back().workload.pod = pod;
  feed_->write(record);
  record = Record();
  feed_->set_watchers(0);
  look(1);
  EXPECT_EQ(pod.use_count(), 2) << "not read yet";
  drain();
  look(2);
  EXPECT_EQ(pod.use_count(), 1);
}

// Two threads, for TSan.
TEST_F(FeedTest, CountsEveryLoss) {
  constexpr std::uint64_t kAll = 20'000;
  feed_->set_watchers(1);
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (std::uint64_t i = 1; i <= kAll; ++i) feed_->write(record_of(i, std::int64_t(i)));
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
  EXPECT_EQ(seen + feed_->take_dropped(), kAll);
  EXPECT_GT(seen, 0U);
}

}  // namespace
}  // namespace forestall::exports
