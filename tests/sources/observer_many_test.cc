// SPDX-License-Identifier: Apache-2.0
// More workloads than there are descriptors for: all are observed, and descriptors are left for
// kills.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "sources/observer.h"
#include "sources/watched_cgroups.h"
#include "support/descriptors_used_up.h"
#include "support/small_node.h"

namespace forestall::sources {
namespace {

constexpr int kWorkloads = 100;
constexpr rlim_t kDescriptors = 200;

// While this object exists.
class FewDescriptors {
 public:
  FewDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = kDescriptors;
    setrlimit(RLIMIT_NOFILE, &few);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

std::ptrdiff_t open_files() {
  std::error_code failed;
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd", failed),
                       std::filesystem::directory_iterator());
}

class ObserverMany : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < kWorkloads; ++i) make(name(i), 4096 + i);
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    ASSERT_TRUE(found) << found.error().text();
    tree_ = std::move(found).value();
    Config config;
    config.pods = false;
    WorkloadRule rule;
    rule.cgroup = "/w/*";
    config.workloads = {rule};
    auto made = Observer::create(tree_, config, files_ / "proc");
    ASSERT_TRUE(made) << made.error().text();
    observer_ = std::move(made).value();
  }

  static std::string name(int i) { return fmt::format("w{:03}", i); }
  void make(const std::string& group, int usage) const {
    files_.write("cgroup/w/" + group + "/cgroup.procs", "1\n");
    files_.write("cgroup/w/" + group + "/memory.current", fmt::format("{}\n", usage));
    files_.write("cgroup/w/" + group + "/memory.stat", "inactive_file 0\n");
  }

  std::vector<WorkloadSample> samples() {
    Observation observation = observer_->sample_node(Wake{}, MonotonicTime());
    observer_->add_workloads(observation, {}, kUnscored);
    return *observation.workloads;
  }

  FewDescriptors few_;
  test::SmallNode files_;
  kernel::CgroupTree tree_;
  std::unique_ptr<Observer> observer_;
};

TEST_F(ObserverMany, AllAreReadAndHalfOfTheDescriptorsIsLeft) {
  const std::ptrdiff_t before = open_files();
  EXPECT_TRUE(observer_->refresh().empty());
  EXPECT_EQ(observer_->workload_count(), static_cast<std::size_t>(kWorkloads));
  EXPECT_LE(open_files() - before, static_cast<std::ptrdiff_t>(kDescriptors / 2 + 10));
  const auto all = samples();
  ASSERT_EQ(all.size(), static_cast<std::size_t>(kWorkloads));
  for (int i = 0; i < kWorkloads; ++i) {
    const WorkloadSample& sample = all[static_cast<std::size_t>(i)];
    EXPECT_EQ(sample.usage, Bytes{4096 + i}) << sample.workload.path;
    EXPECT_EQ(sample.processes, 1U) << sample.workload.path;
  }
}

// The second tree must not take what the first one or a kill needs.
TEST_F(ObserverMany, TwoTreesWithOwnLimitsLeaveAQuarterOfTheDescriptors) {
  for (int i = 0; i < kWorkloads; ++i)
    files_.write("cgroup/w/" + name(i) + "/memory.max", "8192\n");
  Config config;
  config.pods = false;
  WorkloadRule rule;
  rule.cgroup = "/w/*";
  config.workloads = {rule};
  Threshold threshold;
  threshold.signal = Signal::cgroup_memory_available;
  threshold.limit = Limit::bytes(Bytes{100});
  threshold.own_limits_of = WorkloadClass::other;
  config.thresholds = {threshold};
  observer_->configure(config);
  observer_->make_standby_tree();
  const std::ptrdiff_t before = open_files();
  observer_->refresh();
  auto standby = observer_->take_standby_tree();
  standby->refresh();
  EXPECT_TRUE(standby->complete());
  EXPECT_LE(open_files() - before, static_cast<std::ptrdiff_t>(kDescriptors * 3 / 4));
  observer_->exchange_tree(std::move(standby));
  EXPECT_EQ(samples().size(), static_cast<std::size_t>(kWorkloads));
}

TEST_F(ObserverMany, UnpinnedWorkloadsStayTheSameAtTheNextRefresh) {
  EXPECT_TRUE(observer_->refresh().empty());
  const std::uint64_t changes = observer_->workload_changes();
  EXPECT_TRUE(observer_->refresh().empty());
  EXPECT_EQ(observer_->workload_changes(), changes);
}

TEST_F(ObserverMany, OneThatIsAnotherByNowIsDropped) {
  EXPECT_TRUE(observer_->refresh().empty());
  const std::string last = name(kWorkloads - 1);
  std::filesystem::rename(files_ / ("cgroup/w/" + last), files_ / "cgroup/gone");
  make(last, 5);
  EXPECT_EQ(samples().size(), static_cast<std::size_t>(kWorkloads - 1));
  EXPECT_TRUE(observer_->refresh().empty());
  EXPECT_EQ(samples().size(), static_cast<std::size_t>(kWorkloads));
}

// add_some_workloads() continues at an index, which a removal shifts.
TEST_F(ObserverMany, DroppingARemovedWorkloadIsAChangeOfTheSet) {
  EXPECT_TRUE(observer_->refresh().empty());
  const std::uint64_t changes = observer_->workload_changes();
  (void)samples();
  EXPECT_EQ(observer_->workload_changes(), changes);
  const std::string last = name(kWorkloads - 1);
  std::filesystem::rename(files_ / ("cgroup/w/" + last), files_ / "cgroup/gone");
  (void)samples();
  EXPECT_NE(observer_->workload_changes(), changes);
}

class ObserverManyWatched : public ObserverMany {
 protected:
  void SetUp() override {
    ObserverMany::SetUp();
    Config config;
    config.pods = false;
    Threshold threshold;
    threshold.signal = Signal::cgroup_memory_available;
    threshold.cgroup = "/w/*";
    // Both watch the same cgroups, on the same descriptors.
    config.thresholds = {threshold, threshold};
    observer_->configure(config);
  }
  // Unlike a hierarchy, the filesystem of these files uses inodes again.
  [[nodiscard]] std::vector<std::string> lowest_inodes(std::size_t count) const {
    std::vector<std::pair<ino_t, std::string>> found;
    for (const auto& each : std::filesystem::directory_iterator(files_ / "cgroup/w")) {
      struct stat status {};
      if (each.is_directory() && ::stat(each.path().c_str(), &status) == 0) {
        found.emplace_back(status.st_ino, "/w/" + each.path().filename().string());
      }
    }
    std::ranges::sort(found);
    std::vector<std::string> paths;
    for (std::size_t i = 0; i < count; ++i) paths.push_back(found.at(i).second);
    std::ranges::sort(paths);
    return paths;
  }
  std::vector<std::string> watched() {
    std::vector<std::string> paths;
    for (const auto& each : observer_->sample_node(Wake{}, MonotonicTime()).watched) {
      if (each.threshold == 0) paths.push_back(each.path);
    }
    return paths;
  }
};

TEST_F(ObserverManyWatched, AreBoundedByTheDescriptorsAndTheRestIsReported) {
  const std::ptrdiff_t before = open_files();
  const auto notes = observer_->refresh();
  EXPECT_EQ(watched().size(), watched_cgroups_max());
  EXPECT_LE(open_files() - before, static_cast<std::ptrdiff_t>(kDescriptors / 4));
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].subject, "watched cgroups");
  EXPECT_TRUE(notes[0].problem.starts_with("at least 64 ")) << notes[0].problem;
}

TEST_F(ObserverManyWatched, AreBoundedByTheConfiguration) {
  Config config;
  config.pods = false;
  Threshold threshold;
  threshold.signal = Signal::cgroup_memory_available;
  threshold.cgroup = "/w/*";
  config.thresholds = {threshold};
  config.watched_cgroups_max = 2;
  observer_->configure(config);
  const auto notes = observer_->refresh();
  EXPECT_EQ(watched(), lowest_inodes(2)) << "in a hierarchy these are the oldest";
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].problem,
            "at least 64 that match a threshold are not watched: at most 2 are, within "
            "watchedCgroupsMax; narrow the thresholds or raise it");
  EXPECT_EQ(watched_cgroups_max(kWatchedCgroupsMax), watched_cgroups_max())
      << "the limit of open files remains a bound";
}

TEST_F(ObserverManyWatched, StayWatchedWhileNoDescriptorsAreLeft) {
  (void)observer_->refresh();
  const auto before = watched();
  ASSERT_FALSE(before.empty());
  const test::DescriptorsUsedUp none;
  EXPECT_FALSE(observer_->refresh().empty());
  EXPECT_EQ(watched(), before);
}

TEST_F(ObserverMany, KnownWorkloadsStayCandidatesWhileNoDescriptorIsLeft) {
  EXPECT_TRUE(observer_->refresh().empty());
  const auto before = samples();
  const std::uint64_t changes = observer_->workload_changes();
  ASSERT_EQ(before.size(), static_cast<std::size_t>(kWorkloads));
  const test::DescriptorsUsedUp none;
  EXPECT_FALSE(observer_->refresh().empty()) << "the loss is reported";
  EXPECT_EQ(samples(), before) << "unread ones have the values last read";
  EXPECT_EQ(observer_->workload_changes(), changes);
  EXPECT_GT(observer_->unread_workloads(), 0U) << "the loss is counted";
}

// The policy evicts workloads without values first, as kubelet does.
TEST_F(ObserverMany, AFailedOpenDoesNotMakeValuesUnknown) {
  EXPECT_TRUE(observer_->refresh().empty());
  Observation observation = observer_->sample_node(Wake{}, MonotonicTime());
  observer_->add_workloads(observation, {}, kUnscored);
  const auto before = *observation.workloads;
  const test::DescriptorsUsedUp none;
  observer_->resample_workloads(observation);
  EXPECT_EQ(*observation.workloads, before);
}

TEST_F(ObserverMany, AWorkloadThatWasNeverReadIsNoCandidate) {
  EXPECT_TRUE(observer_->refresh().empty());
  const auto before = samples();
  make("zz", 7);
  {
    const test::DescriptorsUsedUp none;
    EXPECT_FALSE(observer_->refresh().empty());
    EXPECT_EQ(samples(), before);
  }
  EXPECT_TRUE(observer_->refresh().empty());
  EXPECT_EQ(samples().size(), before.size() + 1);
}

TEST_F(ObserverMany, ARemovedWorkloadIsDroppedWhileNoDescriptorIsLeft) {
  EXPECT_TRUE(observer_->refresh().empty());
  (void)samples();
  for (const int i : {1, kWorkloads - 1}) {
    std::filesystem::rename(files_ / ("cgroup/w/" + name(i)), files_ / ("cgroup/" + name(i)));
  }
  make(name(1), 1);  // another cgroup of the same name
  const test::DescriptorsUsedUp none;
  (void)observer_->refresh();
  const auto left = samples();
  ASSERT_EQ(left.size(), static_cast<std::size_t>(kWorkloads - 1));
  EXPECT_EQ(left[1].usage, Bytes{1}) << "read through the descriptors of the removed one";
  EXPECT_EQ(left.back().workload.path, "/w/" + name(kWorkloads - 2));
}

TEST_F(ObserverMany, AWorkloadWithoutARuleIsDroppedWhileNoDescriptorIsLeft) {
  EXPECT_TRUE(observer_->refresh().empty());
  (void)samples();
  Config config;
  config.pods = false;
  WorkloadRule rule;
  rule.cgroup = "/w/w00*";
  rule.is_protected = true;
  config.workloads = {rule};
  observer_->configure(config);
  const test::DescriptorsUsedUp none;
  (void)observer_->refresh();
  const auto left = samples();
  ASSERT_EQ(left.size(), 10U);
  EXPECT_EQ(left.front().workload.protection, Protection::declared) << "the new rule counts";
}

class ObserverManyPods : public ObserverMany {
 protected:
  void SetUp() override {
    for (int i = 0; i < kWorkloads; ++i) {
      const std::string pod = "cgroup/kubepods/burstable/pod" + name(i);
      files_.write(pod + "/cgroup.procs", "1\n");
      files_.write(pod + "/memory.current", fmt::format("{}\n", 4096 + i));
      files_.write(pod + "/memory.stat", "inactive_file 0\n");
    }
    const std::string guaranteed = "cgroup/kubepods/podguaranteed";
    files_.write(guaranteed + "/cgroup.procs", "1\n");
    files_.write(guaranteed + "/memory.current", "4096\n");
    files_.write(guaranteed + "/memory.max", "8388608\n");
    files_.write(guaranteed + "/memory.stat", "inactive_file 0\n");
    for (const char* file : {"current", "max"}) {
      files_.write(std::string("cgroup/kubepods/memory.") + file, "8388608\n");
    }
    files_.write("cgroup/kubepods/memory.stat", "inactive_file 0\n");
    files_.write("proc/1/oom_score_adj", "900\n");
    ObserverMany::SetUp();
    observer_->configure(Config{});
  }
};

TEST_F(ObserverManyPods, StayCandidatesWithTheirFactsWhileNoDescriptorIsLeft) {
  EXPECT_TRUE(observer_->refresh().empty());
  const auto before = samples();
  ASSERT_EQ(before.size(), static_cast<std::size_t>(kWorkloads + 1));
  EXPECT_EQ(before.back().workload.inferred->memory_request, mib(8));
  EXPECT_EQ(before.front().workload.inferred->oom_score_adj, 900);
  {
    const test::DescriptorsUsedUp none;
    EXPECT_FALSE(observer_->refresh().empty());
    EXPECT_EQ(samples(), before);
    EXPECT_EQ(observer_->pods_path(), "/kubepods");
  }
  EXPECT_TRUE(observer_->refresh().empty());
  EXPECT_EQ(samples(), before);
}

// Its protection follows from what is inferred.
TEST_F(ObserverManyPods, WhatIsInferredIsCompletedWhenAPodIsReadAgain) {
  const std::string pod = "cgroup/kubepods/burstable/podlate";
  for (const char* file : {"cgroup.procs", "memory.stat"}) files_.write(pod + "/" + file, "");
  files_.write(pod + "/memory.current", "4096\n");
  EXPECT_TRUE(observer_->refresh().empty());
  Observation observation = observer_->sample_node(Wake{}, MonotonicTime());
  observer_->add_workloads(observation, {}, kUnscored);
  const auto inferred = [&] {
    const auto late =
        std::ranges::find(*observation.workloads, "/kubepods/burstable/podlate",
                          [](const WorkloadSample& sample) { return sample.workload.path; });
    return late == observation.workloads->end() ? std::nullopt : late->workload.inferred;
  };
  ASSERT_TRUE(inferred());
  EXPECT_EQ(inferred()->oom_score_adj, std::nullopt) << "no process yet";
  files_.write(pod + "/cgroup.procs", "1\n");
  observer_->resample_workloads(observation);
  ASSERT_TRUE(inferred());
  EXPECT_EQ(inferred()->oom_score_adj, 900);
}

// The agent's own group must not become a candidate because it could not be found again.
TEST_F(ObserverMany, ItsOwnGroupStaysProtectedWhileNoDescriptorIsLeft) {
  files_.write("proc/self/cgroup", "0::/w/" + name(3) + "\n");
  files_.write("cgroup/w/" + name(3) + "/cgroup.procs", fmt::format("{}\n", ::getpid()));
  EXPECT_TRUE(observer_->refresh().empty());
  const auto protection = [&] { return samples().at(3).workload.protection; };
  ASSERT_EQ(protection(), Protection::own_cgroup);
  const test::DescriptorsUsedUp none;
  EXPECT_FALSE(observer_->refresh().empty());
  EXPECT_EQ(protection(), Protection::own_cgroup);
}

}  // namespace
}  // namespace forestall::sources
