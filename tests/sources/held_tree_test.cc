// SPDX-License-Identifier: Apache-2.0
// A standby tree that was refreshed elsewhere takes the place of the one in use. The tree is files.
#include "sources/held_tree.h"

#include <gtest/gtest.h>

#include "sources/observer.h"
#include "support/descriptors_used_up.h"
#include "support/small_node.h"

namespace forestall::sources {
namespace {

class HeldTreeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    ASSERT_TRUE(found) << found.error().text();
    tree_ = std::move(found).value();
    Config config;
    config.pods = false;
    WorkloadRule rule;
    rule.cgroup = "/w/*";
    config.workloads = {rule};
    auto observer = Observer::create(tree_, config, files_ / "proc");
    ASSERT_TRUE(observer) << observer.error().text();
    observer_ = std::move(observer).value();
    observer_->make_standby_tree();
    make("/w/a", 100);
    observer_->refresh();
  }
  void make(const std::string& path, int usage) { files_.set_group(path, usage, 10); }
  std::vector<WorkloadSample> sample() {
    Observation observation;
    observer_->add_workloads(observation, {}, kUnscored);
    return *observation.workloads;
  }
  void exchange() {
    auto standby = observer_->take_standby_tree();
    ASSERT_NE(standby, nullptr);
    standby->refresh();
    observer_->exchange_tree(std::move(standby));
  }

  test::SmallNode files_{"/w"};
  kernel::CgroupTree tree_;
  std::unique_ptr<Observer> observer_;
};

TEST_F(HeldTreeTest, WorkloadsOfTheExchangedTreeAreRead) {
  make("/w/b", 200);
  EXPECT_EQ(observer_->workload_count(), 1U);
  exchange();
  const auto samples = sample();
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[1].workload.path, "/w/b");
  EXPECT_EQ(samples[1].usage, Bytes{200});
}

// The cgroup of the sample, not the one of the same path: a kill may take it later.
TEST_F(HeldTreeTest, HandsOverTheOpenCgroupOfAWorkload) {
  const CgroupId id = sample().front().workload.cgroup;
  const auto held = observer_->held(id);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->directory->id(), id);
  exchange();
  files_.set_group("/w/a", 300, 10);
  std::string buffer;
  EXPECT_EQ(held->usage->read(buffer).value(), "300\n") << "it stays open";
  ASSERT_TRUE(observer_->held(id));
  EXPECT_NE(observer_->held(id)->directory, held->directory) << "of the tree in use";
  EXPECT_FALSE(observer_->held(CgroupId{id.inode + 1}));
}

TEST_F(HeldTreeTest, ThereIsOneStandbyTree) {
  const auto standby = observer_->take_standby_tree();
  EXPECT_NE(standby, nullptr);
  EXPECT_EQ(observer_->take_standby_tree(), nullptr);
}

// Else memory.stat would be read again for each workload after an exchange.
TEST_F(HeldTreeTest, LastReadingsAreTakenOver) {
  Observation observation;
  observation.workloads = sample();
  exchange();
  files_.write("cgroup/w/a/memory.stat", "inactive_file 99\n");
  observer_->resample_workloads(observation);
  EXPECT_EQ(observation.workloads->front().inactive_file, Bytes{10}) << "usage stood still";
}

// The standby tree was in use before the other one: its own readings are old.
TEST_F(HeldTreeTest, ReadingsOfAnEarlierUseAreNotUsed) {
  Observation observation;
  observation.workloads = sample();
  exchange();
  files_.write("cgroup/w/a/memory.stat", "inactive_file 99\n");
  observation.workloads = sample();
  exchange();
  observer_->resample_workloads(observation);
  EXPECT_EQ(observation.workloads->front().inactive_file, Bytes{99});
}

TEST_F(HeldTreeTest, ExchangeIsAChangeOnlyIfTheWorkloadsDiffer) {
  const std::uint64_t before = observer_->workload_changes();
  exchange();
  EXPECT_EQ(observer_->workload_changes(), before);
  make("/w/b", 200);
  exchange();
  EXPECT_EQ(observer_->workload_changes(), before + 1);
  exchange();
  EXPECT_EQ(observer_->workload_changes(), before + 1);
}

// It would otherwise replace a tree that holds more.
TEST_F(HeldTreeTest, ARefreshThatCannotListIsIncomplete) {
  const auto standby = observer_->take_standby_tree();
  {
    const test::DescriptorsUsedUp none;
    standby->refresh();
  }
  EXPECT_FALSE(standby->complete());
  standby->refresh();
  EXPECT_TRUE(standby->complete());
}

TEST_F(HeldTreeTest, CgroupsThatCameSinceItsRefreshAreReported) {
  auto standby = observer_->take_standby_tree();
  standby->refresh();
  make("/w/b", 200);
  observer_->exchange_tree(std::move(standby));
  EXPECT_TRUE(observer_->has_new_cgroups());
  const auto came = observer_->new_cgroups();
  ASSERT_TRUE(came);
  ASSERT_EQ(came->size(), 1U);
  EXPECT_EQ(came->front(), "/w/b");
}

}  // namespace
}  // namespace forestall::sources
