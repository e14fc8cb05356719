// SPDX-License-Identifier: Apache-2.0
// More workloads than there are descriptors for: all are observed, and descriptors are left for
// kills.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "sources/observer.h"
#include "support/temp_tree.h"

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
    Observation observation = observer_->observe(Wake{}, MonotonicTime());
    observer_->add_workloads(observation, {}, kUnscored);
    return *observation.workloads;
  }

  FewDescriptors few_;
  test::TempTree files_{
      {"cgroup/cgroup.controllers", "memory\n"},
      {"cgroup/cgroup.procs", ""},
      {"proc/meminfo",
       "MemTotal: 1000000 kB\nMemFree: 1 kB\nMemAvailable: 600 kB\nSwapTotal: 0 kB\nSwapFree: 0 "
       "kB\n"},
      {"proc/vmstat", "nr_anon_pages 300\nnr_file_pages 200\nnr_inactive_file 50\n"},
      {"proc/loadavg", "0.00 0.01 0.05 2/3518 4711\n"},
      {"proc/sys/kernel/pid_max", "4194304\n"},
      {"proc/sys/kernel/threads-max", "31000\n"}};
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

}  // namespace
}  // namespace forestall::sources
