// SPDX-License-Identifier: Apache-2.0
// The process that the kernel would choose in each workload, from made-up processes.
#include "sources/workload_badness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "sources/observer.h"
#include "support/manual_clock.h"
#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

class FakeProcesses final : public ProcessSource {
 public:
  Result<void> scan(std::optional<CgroupId>, std::vector<ProcessSample>& into) override {
    ++scans;
    if (failure) return *failure;
    into = samples;
    return {};
  }
  Result<bool> order(std::vector<ProcessSample>&, const std::vector<std::size_t>&) override {
    return false;
  }
  [[nodiscard]] std::string_view name() const override { return "fake"; }

  void add(pid_t pid, CgroupId cgroup, Pages anon, std::int32_t adj = 0,
           Unkillable unkillable = Unkillable::none) {
    ProcessSample sample;
    sample.id = {pid, 1};
    sample.cgroup = cgroup;
    sample.memory.anon = anon;
    sample.oom_score_adj = adj;
    sample.unkillable = unkillable;
    sample.order = samples.size();
    samples.push_back(sample);
  }

  std::vector<ProcessSample> samples;
  std::optional<Error> failure;
  int scans = 0;
};

class WorkloadBadnessTest : public testing::Test {
 protected:
  WorkloadBadnessTest() {
    for (const char* path : {"a", "a/b", "a/b/c", "d"}) {
      files_.write("cgroup/" + std::string(path) + "/memory.oom.group", "0\n");
      files_.write("cgroup/" + std::string(path) + "/memory.current", "0\n");
      files_.write("cgroup/" + std::string(path) + "/memory.stat", "inactive_file 0\n");
      files_.write("cgroup/" + std::string(path) + "/cgroup.procs", "");
    }
    tree_ = kernel::CgroupTree::discover(files_ / "cgroup").value();
  }
  CgroupId id_of(const std::string& path) { return tree_.open(path).value().id(); }
  WorkloadSample workload(const std::string& path) {
    WorkloadSample sample;
    sample.workload.path = path;
    sample.workload.cgroup = id_of(path);
    return sample;
  }

  test::TempTree files_{{"cgroup/cgroup.controllers", "memory\n"},
                        {"cgroup/cgroup.procs", ""},
                        {"proc/meminfo", "MemTotal: 4000 kB\nSwapTotal: 0 kB\n"},
                        {"proc/vmstat", "nr_anon_pages 1\nnr_file_pages 1\nnr_inactive_file 0\n"},
                        {"proc/loadavg", "0.00 0.01 0.05 2/3518 4711\n"},
                        {"proc/sys/kernel/pid_max", "4194304\n"},
                        {"proc/sys/kernel/threads-max", "31000\n"}};
  kernel::CgroupTree tree_;
  FakeProcesses processes_;
  WorkloadScorer scorer_;
};

TEST_F(WorkloadBadnessTest, AProcessCountsForAllItsAncestors) {
  processes_.add(10, id_of("/a"), 5);
  processes_.add(11, id_of("/a/b/c"), 9);
  processes_.add(12, id_of("/a/b"), 7, 1);  // 2000 / 1000 more
  processes_.add(13, id_of("/a/b"), 100, 0, Unkillable::reaped);
  processes_.add(14, id_of("/"), 1000);
  processes_.add(15, CgroupId{}, 1000);
  std::vector<WorkloadSample> workloads{workload("/a"), workload("/a/b/c"), workload("/d")};
  workloads.push_back({});
  workloads.back().workload.cgroup = CgroupId{1};
  ASSERT_TRUE(scorer_.scan(tree_, processes_, 2000).ok());
  scorer_.report(workloads);
  // 9 points each: the last forked one.
  EXPECT_EQ(workloads[0].badness, (WorkloadBadness{{12, 1}, 9}));
  EXPECT_EQ(workloads[1].badness, (WorkloadBadness{{11, 1}, 9}));
  EXPECT_TRUE(workloads[2].scored);
  EXPECT_EQ(workloads[2].badness, std::nullopt);
  EXPECT_FALSE(workloads[3].scored);  // it is gone
  // After a failed scan nothing is reported, not even the result of the one before.
  processes_.failure = Error{EPERM, "scan"};
  EXPECT_FALSE(scorer_.scan(tree_, processes_, 2000).ok());
  workloads = {workload("/a")};
  scorer_.report(workloads);
  EXPECT_FALSE(workloads[0].scored);
}

TEST_F(WorkloadBadnessTest, TheObserverScansIfTheRankingNeedsIt) {
  Config config;
  config.pods = false;
  config.workloads.push_back({"/d", {}, {}, {}, false});
  processes_.add(10, id_of("/d"), 5, 1000);
  auto observer = Observer::create(tree_, config, files_ / "proc").value();
  observer->set_processes(&processes_);
  const auto evaluate = [&] {
    observer->refresh();
    auto seen = observer->sample_node(Wake{}, test::ManualClock().now());
    observer->add_workloads(seen, "");
    return seen;
  };
  auto seen = evaluate();
  ASSERT_EQ(seen.workloads->size(), 1U);
  EXPECT_FALSE(seen.workloads->front().scored);
  EXPECT_EQ(processes_.scans, 0);
  config.ranking = Ranking::kernel;
  observer->configure(config);
  seen = evaluate();
  EXPECT_EQ(processes_.scans, 1);
  EXPECT_TRUE(seen.workloads->front().scored);
  const Pages total = 4000 * 1024 / ::sysconf(_SC_PAGESIZE);
  EXPECT_EQ(seen.workloads->front().badness, (WorkloadBadness{{10, 1}, 5 + 1000 * (total / 1000)}));
  processes_.failure = Error{EPERM, "scan"};
  seen = evaluate();
  EXPECT_FALSE(seen.workloads->front().scored);
  ASSERT_EQ(seen.notes.size(), 1U);
  EXPECT_EQ(seen.notes.front().subject, "processes");
  observer->set_processes(nullptr);
  EXPECT_FALSE(evaluate().workloads->front().scored);
}

TEST_F(WorkloadBadnessTest, OneScanServesAnEvaluationThatNeedsIt) {
  Config config;
  config.pods = false;
  config.ranking = Ranking::kernel;
  config.workloads.push_back({"/a", {}, {}, {}, false});
  config.workloads.push_back({"/d", {}, {}, {}, false});
  processes_.add(10, id_of("/a/b"), 5);
  auto observer = Observer::create(tree_, config, files_ / "proc").value();
  observer->set_processes(&processes_);
  observer->refresh();
  test::ManualClock clock;
  const auto evaluate = [&](std::string_view subject, Scoring scoring) {
    auto seen = observer->sample_node(Wake{}, clock.now());
    observer->add_workloads(seen, subject, scoring);
    return seen;
  };
  EXPECT_FALSE(evaluate("", kUnscored).workloads->front().scored);
  EXPECT_EQ(processes_.scans, 0);
  const auto begin = clock.now();
  // The first scan is of the whole node, whatever the subject is.
  EXPECT_TRUE(evaluate("/d", {true, begin}).workloads->front().scored);
  clock.advance(std::chrono::seconds(1));
  const auto again = evaluate("/a", {true, begin});
  EXPECT_EQ(again.workloads->front().badness, (WorkloadBadness{{10, 1}, 5}));
  EXPECT_EQ(processes_.scans, 1);
  // The next evaluation, and one that fails.
  processes_.failure = Error{EPERM, "scan"};
  for (int decisions = 0; decisions < 3; ++decisions) {
    const auto failed = evaluate("", {true, begin + std::chrono::seconds(1)});
    EXPECT_FALSE(failed.workloads->front().scored);
    EXPECT_THAT(failed.notes, testing::SizeIs(1));
  }
  EXPECT_EQ(processes_.scans, 2);
  EXPECT_EQ(evaluate("", kUnscored).notes.size(), 0U);
  // A request without a time gets a scan of its own.
  processes_.failure.reset();
  EXPECT_TRUE(evaluate("", {}).workloads->front().scored);
  EXPECT_TRUE(evaluate("", {}).workloads->front().scored);
  EXPECT_EQ(processes_.scans, 4);
}

}  // namespace
}  // namespace forestall::sources
