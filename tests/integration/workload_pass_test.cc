// SPDX-License-Identifier: Apache-2.0
// The agent's samples of workloads and of cgroups with thresholds, with the pass and without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "integration/memcg_pass.h"
#include "kernel/cgroup_tree.h"
#include "sources/held_workloads.h"
#include "sources/observer.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

// More than a pass serves for a few of them, on either version.
constexpr int kMany = 600;

class WorkloadPassTest : public MemcgScanTest {
 protected:
  void SetUp() override {
    MemcgScanTest::SetUp();
    if (!scan_) return;
    for (const char* name : {"a", "b", "c"}) paths_.push_back(groups_.child(name));
    groups_.child("a/inner");
    Config config;
    config.workloads.push_back({groups_.path() + "/*", {}, {}, {}, false});
    observer_ = sources::Observer::create(tree_, config).value();
    observer_->make_standby_tree();
    observer_->refresh();
    const auto directory = tree_.open(groups_.path()).value();
    ASSERT_TRUE(scan_->begin_at(directory.fd()).ok());
  }
  std::vector<WorkloadSample> sample(kernel::MemcgScan* scan) {
    observer_->set_memcgs(scan);
    Observation observation;
    observer_->add_workloads(observation, {}, sources::kUnscored);
    EXPECT_THAT(observation.notes, testing::IsEmpty());
    return std::move(*observation.workloads);
  }
  // On v1 the limit is in memory.stat, so the files of a watched cgroup are read a moment later.
  void expect_from_pass(const CgroupSample& watched, const std::string& path) const {
    if (tree_.version() == kernel::CgroupVersion::v1) return;
    EXPECT_EQ(watched.usage, scan_->find(id(path))->usage);
    EXPECT_EQ(watched.inactive_file, scan_->find(id(path))->inactive_file);
  }

  kernel::CgroupTree tree_ = kernel::CgroupTree::discover().value();
  std::unique_ptr<sources::Observer> observer_;
  std::vector<std::string> paths_;
};

TEST_F(WorkloadPassTest, SamplesAreThoseOfTheFiles) {
  const UnreadFile file(mib(16));
  const Child first = holder(groups_.path() + "/a/inner", mib(12), mib(4), file.path());
  const Child second = holder(paths_[1], mib(6), mib(2), "/dev/null");
  const auto complete = [&] {
    return groups_.usage(paths_[0]) >= mib(16) && groups_.usage(paths_[1]) >= mib(8);
  };
  const MonotonicTime end = SystemClock().now() + kPatience;
  std::vector<WorkloadSample> passed, read;
  // Samples of the time before both have their memory may be equal, too.
  for (bool begun_complete = false; !begun_complete || passed != read;) {
    ASSERT_LT(SystemClock().now(), end);
    begun_complete = complete();
    passed = sample(scan_.get());
    read = sample(nullptr);
  }
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(passed, read);
  EXPECT_EQ(read[0].processes, 1U);
  EXPECT_EQ(read[2].processes, 0U);
}

TEST_F(WorkloadPassTest, ASampleIsTakenAgainFromANewPass) {
  const Hog hog(groups_, paths_[1], mib(4));
  observer_->set_memcgs(scan_.get());
  Observation observation;
  observer_->add_workloads(observation, {}, sources::kUnscored);
  hog.grow(mib(16));
  ASSERT_TRUE(hog.wait_grown());
  observer_->resample_workloads(observation);
  ASSERT_EQ(observation.workloads->size(), 3U);
  const WorkloadSample& grown = observation.workloads->at(1);
  EXPECT_GE(grown.usage, mib(16));
  EXPECT_EQ(grown.usage, scan_->find(id(paths_[1]))->usage);
}

TEST_F(WorkloadPassTest, AnExchangedTreeUsesThePass) {
  ASSERT_EQ(sample(scan_.get()).size(), 3U);
  EXPECT_EQ(scan_->all().size(), 5U);
  auto standby = observer_->take_standby_tree();
  standby->refresh();
  observer_->exchange_tree(std::move(standby));
  groups_.remove_child(groups_.path() + "/a/inner");
  const auto directory = tree_.open(paths_[2]).value();
  ASSERT_TRUE(scan_->begin_at(directory.fd()).ok());
  Observation observation;
  observer_->add_workloads(observation, {}, sources::kUnscored);
  EXPECT_EQ(observation.workloads->size(), 3U);
  EXPECT_EQ(scan_->all().size(), 1U);
}

TEST_F(WorkloadPassTest, ARemovedWorkloadIsDropped) {
  groups_.remove_child(paths_[1]);
  const auto samples = sample(scan_.get());
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[1].workload.path, paths_[2]);
}

TEST_F(WorkloadPassTest, AWorkloadOutsideOfThePassIsReadFromItsFiles) {
  const Child child = holder(paths_[1], mib(6), mib(2), "/dev/null");
  const auto directory = tree_.open(paths_[0]).value();
  ASSERT_TRUE(scan_->begin_at(directory.fd()).ok());
  const MonotonicTime end = SystemClock().now() + kPatience;
  while (groups_.usage(paths_[1]) < mib(8) && SystemClock().now() < end) continue;
  const auto samples = sample(scan_.get());
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(scan_->find(id(paths_[1])), nullptr);
  EXPECT_GE(samples[1].usage, mib(8));
  EXPECT_EQ(samples[1].processes, 1U);
}

// memory.stat may be two seconds behind a pass. So where files serve a comparison, none of its
// values is one that a pass left. Pages that a process gives up lazily become file pages, and its
// usage stands still.
TEST_F(WorkloadPassTest, FilesReplaceTheValuesOfAPass) {
  int steps[2];
  ASSERT_EQ(::pipe(steps), 0);
  const Child giver([&] {
    groups_.add(paths_[1], ::getpid());
    const auto size = static_cast<std::size_t>(mib(16).count);
    void* held = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    char step = 0;
    if (held == MAP_FAILED || ::read(steps[0], &step, 1) != 1) return 1;
    ::madvise(held, size, MADV_FREE);
    for (;;) ::pause();
    return 0;
  });
  const MonotonicTime end = SystemClock().now() + kPatience;
  while (groups_.usage(paths_[1]) < mib(16) && SystemClock().now() < end) continue;
  Observation observation;
  observation.workloads = sample(scan_.get());
  ASSERT_LT(observation.workloads->at(1).inactive_file, mib(1));
  ASSERT_EQ(::write(steps[1], "", 1), 1);
  while (files(paths_[1]).inactive_file < mib(12) && SystemClock().now() < end) continue;
  observer_->set_memcgs(nullptr);
  observer_->resample_workloads(observation);
  EXPECT_GE(observation.workloads->at(1).inactive_file, mib(12));
}

// What decides whether a threshold is met is as new as what its candidates are ranked by.
TEST_F(WorkloadPassTest, AWatchedGroupIsReadByThePassOfItsWorkloads) {
  Config config;
  config.workloads.push_back({groups_.path() + "/*", {}, {}, {}, false});
  Threshold threshold;
  threshold.signal = Signal::cgroup_memory_available;
  threshold.cgroup = groups_.path();
  config.thresholds.push_back(threshold);
  observer_->configure(config);
  observer_->refresh();
  observer_->set_memcgs(scan_.get());
  const Hog hog(groups_, paths_[1], mib(4));
  Observation observation = observer_->sample_node({}, SystemClock().now());
  ASSERT_EQ(observation.watched.size(), 1U);
  expect_from_pass(observation.watched[0], groups_.path());
  hog.grow(mib(16));
  ASSERT_TRUE(hog.wait_grown());
  observer_->add_workloads(observation, {}, sources::kUnscored);
  EXPECT_GE(observation.watched[0].usage, mib(16));
  expect_from_pass(observation.watched[0], groups_.path());
}

// A decision on a subject alone reads no memory.stat, which may be two seconds behind.
TEST_F(WorkloadPassTest, AWatchedGroupOfThisMomentIsReadByAPass) {
  Config config;
  config.workloads.push_back({groups_.path() + "/*", {}, {}, {}, false});
  for (const std::string& path : {groups_.path(), paths_[0]}) {
    Threshold threshold;
    threshold.signal = Signal::cgroup_memory_available;
    threshold.cgroup = path;
    config.thresholds.push_back(threshold);
  }
  observer_->configure(config);
  observer_->refresh();
  observer_->set_memcgs(scan_.get());
  const Hog hog(groups_, groups_.path() + "/a/inner", mib(4));
  hog.grow(mib(16));
  ASSERT_TRUE(hog.wait_grown());
  const std::array subjects{id(paths_[0])};
  const Observation subject = observer_->sample_subjects({}, SystemClock().now(), subjects);
  ASSERT_EQ(subject.watched.size(), 1U);
  expect_from_pass(subject.watched[0], paths_[0]);
  EXPECT_GE(subject.watched[0].usage, mib(16));
  EXPECT_THAT(subject.notes, testing::IsEmpty());
  groups_.remove_child(paths_[2]);
  const std::array removed{id(paths_[0]), CgroupId{}};
  const Observation both = observer_->sample_subjects({}, SystemClock().now(), removed);
  EXPECT_TRUE(both.node.usage.has_value());
  EXPECT_EQ(both.watched.size(), 1U);
}

// An evaluation between two turns of sampling: its few cgroups are read from files, and the samples
// go on by the pass. On cgroup v1 a pass over up to 500 cgroups always serves.
TEST_F(WorkloadPassTest, FewCgroupsTakeNoPassAndEndNone) {
  for (int i = 0; i < kMany; ++i) groups_.child("other" + std::to_string(i));
  sources::HeldWorkloads workloads(tree_, "/proc");
  workloads.set_scan(scan_.get());
  std::vector<SourceNote> notes;
  EXPECT_FALSE(workloads.pass_for(0, /*urgent=*/true, notes));
  workloads.begin_samples(kMany, /*urgent=*/true, notes);
  ASSERT_NE(workloads.passed(id(paths_[1])), nullptr);
  EXPECT_FALSE(workloads.pass_for(1, /*urgent=*/true, notes));
  EXPECT_NE(workloads.passed(id(paths_[1])), nullptr);
  EXPECT_TRUE(workloads.pass_for(kMany / 10, /*urgent=*/true, notes));
  workloads.begin_samples(1, /*urgent=*/true, notes);
  EXPECT_EQ(workloads.passed(id(paths_[1])), nullptr);
  EXPECT_THAT(notes, testing::IsEmpty());
}

// memory.stat of a group misses what its children do while the kernel flushes it, for up to two
// seconds. Its kinds must add up to its usage at any time.
TEST_F(WorkloadPassTest, KindsOfAGroupAreThoseOfThisMomentWhileItsChildrenGrow) {
  observer_->set_memcgs(scan_.get());
  const auto group = tree_.open(groups_.path()).value();
  const Hog hog(groups_, paths_[1], mib(4));
  hog.grow(mib(96), mib(96));
  constexpr Bytes kOther = mib(8);  // as above
  std::vector<SourceNote> notes;
  Bytes behind{0};
  for (bool growing = true; growing;) {
    growing = !hog.wait_grown(std::chrono::milliseconds(0));
    const Bytes usage = groups_.usage(groups_.path());
    const auto kinds = observer_->memory_kinds(group, notes);
    ASSERT_TRUE(kinds && kinds->anon && kinds->file && kinds->shmem) << scan_->evidence();
    ASSERT_GE(*kinds->anon + *kinds->file + *kinds->shmem + kOther, usage);
    behind = std::max(behind, *kinds->anon - files(groups_.path()).anon);
  }
  EXPECT_THAT(notes, testing::IsEmpty());
  std::cout << "@metric memory_stat_behind " << (behind.count >> 10) << " KiB\n";
}

// Many cgroups that are not workloads make a pass dearer than files, and then they go.
TEST_F(WorkloadPassTest, APassServesAgainWhenThereAreFewerCgroups) {
  observer_->set_memcgs(scan_.get());
  const auto cgroups_after_sampling = [&] {
    Observation observation;
    std::size_t next = 0;
    while (observer_->add_some_workloads(observation, {}, next, 10)) {
    }
    EXPECT_EQ(observation.workloads->size(), 3U);
    return scan_->all().size();
  };
  EXPECT_LT(cgroups_after_sampling(), 100U);
  std::vector<std::string> many;
  for (int i = 0; i < kMany; ++i) many.push_back(groups_.child("a/inner/" + std::to_string(i)));
  EXPECT_GT(cgroups_after_sampling(), std::size_t{kMany});
  for (const std::string& each : many) groups_.remove_child(each);
  // The kernel frees them a while after the removal.
  const MonotonicTime end = SystemClock().now() + kPatience;
  while (scan_->scan().ok() && scan_->all().size() >= 100 && SystemClock().now() < end) {
  }
  ASSERT_LT(scan_->all().size(), 100U);
  // From here on a pass finds one cgroup.
  ASSERT_TRUE(scan_->begin_at(tree_.open(paths_[2]).value().fd()).ok());
  int rescans = 0;
  while (rescans < 10 && cgroups_after_sampling() != 1) {
    observer_->refresh();
    ++rescans;
  }
  EXPECT_GT(rescans, 0) << "a pass over many cgroups for three workloads";
  EXPECT_LT(rescans, 5);
}

}  // namespace
}  // namespace forestall::test
