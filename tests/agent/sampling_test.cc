// SPDX-License-Identifier: Apache-2.0
// Sampling in turns while workloads come and go. Each turn reads one workload, because each read of
// the time takes longer than a turn.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "actuators/ladder.h"
#include "agent/growth_watch.h"
#include "agent/victim_cache.h"
#include "support/small_node.h"

namespace forestall::agent {
namespace {

class SlowClock final : public Clock {
 public:
  [[nodiscard]] MonotonicTime now() const override { return from_ns(now_ += 1'000'000); }

 private:
  mutable std::int64_t now_ = 1'000'000'000;
};

constexpr int kWorkloads = 20;
// More than are read on descriptors that are kept open. A renamed directory counts as removed only
// for those that are opened for each read.
constexpr int kRemoved = 15;

class SamplingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < kWorkloads; ++i) make(i);
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    ASSERT_TRUE(found) << found.error().text();
    tree_ = std::move(found).value();
    config_.pods = false;
    config_.ranking = Ranking::kubelet_growth;
    config_.workloads.push_back({"/w/*", {}, {}, {}, false});
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit few = before;
    few.rlim_cur = 64;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    auto made = sources::Observer::create(tree_, config_, files_ / "proc");
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_TRUE(made) << made.error().text();
    observer_ = std::move(made).value();
    EXPECT_TRUE(observer_->refresh().empty());
    ASSERT_EQ(observer_->workload_count(), static_cast<std::size_t>(kWorkloads));
  }

  static std::string path(int i) { return fmt::format("/w/{:02}", i); }
  void make(int i) const {
    files_.write("cgroup" + path(i) + "/cgroup.procs", "1\n");
    files_.write("cgroup" + path(i) + "/memory.current", "16777216\n");
    files_.write("cgroup" + path(i) + "/memory.stat", "inactive_file 0\n");
  }
  void remove(int i) const {
    std::filesystem::rename(files_ / ("cgroup" + path(i)), files_ / "cgroup/gone");
  }
  // As another evaluation reads them.
  [[nodiscard]] std::vector<WorkloadSample> read() {
    Observation observation;
    observer_->add_workloads(observation, {}, sources::kUnscored);
    return std::move(*observation.workloads);
  }

  test::SmallNode files_;
  SlowClock clock_;
  Config config_;
  kernel::CgroupTree tree_;
  std::unique_ptr<sources::Observer> observer_;
};

TEST_F(SamplingTest, ARemovalBetweenTurnsLeavesNoWorkloadWithoutABaseline) {
  GrowthWatch growth(clock_, *observer_);
  growth.begin_sampling(config_);
  for (int turn = 0; turn < kRemoved + 2; ++turn) growth.work();
  ASSERT_TRUE(growth.next_due()) << "some are left";
  remove(kRemoved);
  ASSERT_EQ(read().size(), static_cast<std::size_t>(kWorkloads - 1)) << "the removed one is gone";
  while (growth.next_due()) growth.work();
  auto samples = read();
  growth.apply(samples);
  for (const WorkloadSample& sample : samples) {
    EXPECT_EQ(sample.growth, Bytes{0}) << sample.workload.path << " stood still";
  }
}

TEST_F(SamplingTest, TheBaselineIsCompleteAlthoughWorkloadsComeFasterThanTheyAreSampled) {
  GrowthWatch growth(clock_, *observer_);
  growth.begin_sampling(config_);
  growth.work();
  ASSERT_TRUE(growth.next_due());
  make(kWorkloads);
  EXPECT_TRUE(observer_->refresh().empty());
  growth.work();
  EXPECT_FALSE(growth.next_due()) << "the rest is sampled at once";
  auto samples = read();
  ASSERT_EQ(samples.size(), static_cast<std::size_t>(kWorkloads + 1));
  growth.apply(samples);
  for (const WorkloadSample& sample : samples) {
    EXPECT_EQ(sample.growth, Bytes{0}) << sample.workload.path;
  }
}

TEST_F(SamplingTest, AListWhoseLastTurnDroppedARemovedWorkloadIsUsed) {
  auto ladder = actuators::Ladder::create(tree_, clock_, {});
  ASSERT_TRUE(ladder) << ladder.error().text();
  GrowthWatch growth(clock_, *observer_);
  exports::LoopWorkTally work;
  VictimCache victim_cache(clock_, *observer_, **ladder, growth, work);
  std::vector<Line> lines(1);
  lines[0].path = "/";
  lines[0].margin = mib(32);
  lines[0].headroom = mib(20);
  remove(kRemoved);
  victim_cache.note(lines, clock_.now());
  while (victim_cache.working()) (void)victim_cache.work(config_, {}, clock_.now());
  EXPECT_TRUE(victim_cache.ready(clock_.now()));
  EXPECT_EQ(victim_cache.generation(), 1U);
  EXPECT_EQ(victim_cache.prepared(clock_.now()).workloads,
            static_cast<std::size_t>(kWorkloads - 1));
}

}  // namespace
}  // namespace forestall::agent
