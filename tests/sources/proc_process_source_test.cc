// SPDX-License-Identifier: Apache-2.0
// Processes in a /proc made from literals. Their pids are above any real one, so that no real
// process is read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "kernel/cgroup_tree.h"
#include "sources/process_source.h"
#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr pid_t kFirst = 5'000'000;  // above the largest pid_max

struct Process {
  std::string comm = "hog";
  std::uint64_t flags = 0;
  std::uint64_t start = 100;
  std::string cgroup = "/";
  Pages anon = 1000;
  bool memory = true;
  int threads = 1;
  bool kill_pending = false;
  bool core_dumping = false;
  int adj = 0;
  int score = 700;
};

std::string stat_text(pid_t pid, const Process& process) {
  auto text =
      std::to_string(pid) + " (" + process.comm + ") S 0 1 1 0 -1 " + std::to_string(process.flags);
  for (int field = 10; field <= 52; ++field) {
    text += ' ' + (field == 22 ? std::to_string(process.start) : "0");
  }
  return text + "\n";
}

std::string status_text(pid_t group, const Process& process) {
  auto text = "Name:\t" + process.comm + "\nTgid:\t" + std::to_string(group) +
              "\nUid:\t7\t0\t0\t0\nThreads:\t" + std::to_string(process.threads) + "\n";
  if (process.memory) {
    const auto kib = process.anon * ::sysconf(_SC_PAGESIZE) / 1024;
    text += "RssAnon:\t" + std::to_string(kib) + " kB\nVmPTE:\t0 kB\nCoreDumping:\t" +
            (process.core_dumping ? "1\n" : "0\n");
  }
  return text + "SigPnd:\t" + (process.kill_pending ? "0000000000000100" : "0000000000000000") +
         "\nMems_allowed:\t00000001\n";
}

class ProcSourceTest : public testing::Test {
 protected:
  explicit ProcSourceTest(bool v1 = false) : v1_(v1) {
    files_.write("proc/meminfo", "MemTotal: 4000000 kB\nSwapTotal: 0 kB\n");
    if (v1) files_.write("cgroup/memory/memory.stat", "1\n");
    if (v1) files_.write("cgroup/memory/cgroup.procs", "");
    if (!v1) files_.write("cgroup/cgroup.controllers", "memory\n");
    if (!v1) files_.write("cgroup/cgroup.procs", "");
  }

  void add(pid_t pid, const Process& process) {
    const auto at = "proc/" + std::to_string(pid) + "/";
    files_.write(at + "stat", stat_text(pid, process));
    files_.write(at + "status", status_text(pid, process));
    files_.write(at + "cgroup", (v1_ ? "4:memory:" : "0::") + process.cgroup + "\n");
    files_.write(at + "oom_score_adj", std::to_string(process.adj) + "\n");
    files_.write(at + "oom_score", std::to_string(process.score) + "\n");
  }
  void add_thread(pid_t pid, pid_t thread, const Process& process) {
    const auto at = "proc/" + std::to_string(pid) + "/task/" + std::to_string(thread) + "/";
    files_.write(at + "stat", stat_text(thread, process));
    files_.write(at + "status", status_text(pid, process));
  }
  void add_cgroup(const std::string& path, const std::string& procs) {
    const auto at = (v1_ ? "cgroup/memory" : "cgroup") + path + "/";
    files_.write(at + "cgroup.procs", procs);
    if (!v1_) files_.write(at + "memory.oom.group", "0\n");
  }
  CgroupId id_of(const std::string& path) { return tree().open(path).value().id(); }
  kernel::CgroupTree& tree() {
    if (!tree_) tree_ = kernel::CgroupTree::discover(files_ / "cgroup").value();
    return *tree_;
  }
  std::unique_ptr<ProcessSource> source() {
    return proc_process_source(tree(), files_ / "proc").value();
  }
  std::vector<ProcessSample> scan(std::optional<CgroupId> subtree = std::nullopt) {
    std::vector<ProcessSample> samples(3);
    const auto done = source()->scan(subtree, samples);
    EXPECT_TRUE(done.ok()) << done.error().text();
    return samples;
  }

  bool v1_;
  test::TempTree files_;
  std::optional<kernel::CgroupTree> tree_;
};

class ProcSourceV1Test : public ProcSourceTest {
 protected:
  ProcSourceV1Test() : ProcSourceTest(true) {}
};

TEST_F(ProcSourceTest, ReadsTheFiles) {
  add_cgroup("/a", "");
  add(kFirst, {.comm = "a) b", .start = 5, .cgroup = "/a", .anon = 250, .adj = -17});
  const auto samples = scan();
  ASSERT_THAT(samples, SizeIs(1));
  const auto& sample = samples.front();
  EXPECT_EQ(sample.id, (ProcessId{kFirst, 5}));
  EXPECT_EQ(sample.name(), "a) b");
  EXPECT_EQ(sample.cgroup, id_of("/a"));
  EXPECT_EQ(sample.memory.anon, 250);
  EXPECT_EQ(sample.oom_score_adj, -17);
  EXPECT_EQ(sample.uid, 7U);
  EXPECT_EQ(sample.nodes_allowed, 1U);
  EXPECT_EQ(sample.unkillable, Unkillable::none);
  EXPECT_FALSE(sample.dying);
}

TEST_F(ProcSourceTest, KernelThreadsAndThreadsAreLeftOut) {
  add(kFirst, {.flags = 0x200000});
  add(kFirst + 1, {});
  files_.write("proc/" + std::to_string(kFirst + 1) + "/status",
               status_text(kFirst, {}));  // as it appears at /proc/TID
  EXPECT_THAT(scan(), IsEmpty());
}

TEST_F(ProcSourceTest, DropsAProcessThatExitsDuringTheRead) {
  for (const char* file : {"stat", "status", "cgroup", "oom_score_adj", "oom_score"}) {
    add(kFirst, {});
    std::filesystem::remove(files_ / ("proc/" + std::to_string(kFirst) + "/" + file));
    EXPECT_THAT(scan(), IsEmpty()) << file;
  }
}

TEST_F(ProcSourceTest, ABrokenFileIsAnErrorThatNamesTheProcess) {
  add(kFirst, {});
  files_.write("proc/" + std::to_string(kFirst) + "/oom_score_adj", "x\n");
  std::vector<ProcessSample> samples;
  const auto done = source()->scan(std::nullopt, samples);
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().text(), testing::HasSubstr(std::to_string(kFirst)));
}

TEST_F(ProcSourceTest, WhyOneCannotBeChosen) {
  add(1, {.score = 0});
  add(kFirst + 1, {.memory = false, .score = 0});
  add(kFirst + 2, {.adj = -1000, .score = 0});
  add(kFirst + 3, {.score = 0});               // it would have more: its mm was reaped
  add(kFirst + 4, {.adj = -999, .score = 0});  // it has no more than that
  const auto samples = scan();
  ASSERT_THAT(samples, SizeIs(5));
  EXPECT_EQ(samples[0].unkillable, Unkillable::init);
  EXPECT_EQ(samples[1].unkillable, Unkillable::no_memory);
  EXPECT_EQ(samples[2].unkillable, Unkillable::adjusted);
  EXPECT_EQ(samples[3].unkillable, Unkillable::reaped);
  EXPECT_EQ(samples[4].unkillable, Unkillable::none);
}

TEST_F(ProcSourceTest, Pid1OfANestedNamespaceIsLikeAnyOther) {
  add(1, {.score = 667});
  EXPECT_EQ(scan().front().unkillable, Unkillable::none);
}

TEST_F(ProcSourceTest, RecognizesDyingProcesses) {
  add(kFirst, {.kill_pending = true});
  add(kFirst + 1, {.flags = 4});
  add(kFirst + 2, {.flags = 4, .threads = 2});
  add_thread(kFirst + 2, kFirst + 2, {.flags = 4, .threads = 2});
  add_thread(kFirst + 2, kFirst + 100, {.threads = 2});
  add(kFirst + 3, {.flags = 4, .threads = 2});
  add_thread(kFirst + 3, kFirst + 101, {.threads = 2, .kill_pending = true});
  add(kFirst + 4, {.kill_pending = true, .core_dumping = true});
  add(kFirst + 5, {.flags = 4, .memory = false, .score = 0});
  const auto samples = scan();
  ASSERT_THAT(samples, SizeIs(6));
  EXPECT_TRUE(samples[0].dying);
  EXPECT_TRUE(samples[1].dying);
  EXPECT_FALSE(samples[2].dying);  // only the leader exits
  EXPECT_TRUE(samples[3].dying);
  EXPECT_FALSE(samples[4].dying);  // a core dump may need its memory for long
  EXPECT_FALSE(samples[5].dying);  // it has none left to free
}

TEST_F(ProcSourceTest, AThreadStandsInForALeaderThatHasExited) {
  add(kFirst, {.flags = 4, .memory = false, .threads = 2});
  add_thread(kFirst, kFirst, {.memory = false, .threads = 2});
  add_thread(kFirst, kFirst + 1, {.anon = 77, .threads = 2});
  const auto samples = scan();
  ASSERT_THAT(samples, SizeIs(1));
  EXPECT_EQ(samples.front().memory.anon, 77);
  EXPECT_EQ(samples.front().unkillable, Unkillable::none);
}

TEST_F(ProcSourceTest, ASubtreeIsThoseBelowIt) {
  add_cgroup("/a", std::to_string(kFirst) + "\n" + std::to_string(kFirst + 9) + "\n");
  add_cgroup("/a/b", std::to_string(kFirst + 1) + "\n" + std::to_string(kFirst) + "\n");
  add_cgroup("/c", std::to_string(kFirst + 2) + "\n");
  add(kFirst, {.cgroup = "/a"});
  add(kFirst + 1, {.cgroup = "/a/b"});
  add(kFirst + 2, {.cgroup = "/c"});
  const auto samples = scan(id_of("/a"));
  ASSERT_THAT(samples, SizeIs(2));
  EXPECT_EQ(samples[0].id.pid, kFirst);
  EXPECT_EQ(samples[1].id.pid, kFirst + 1);
  std::vector<ProcessSample> none;
  EXPECT_FALSE(source()->scan(CgroupId{1}, none).ok());
}

TEST_F(ProcSourceTest, WithoutTheControllerTheGroupAboveIsCharged) {
  add_cgroup("/a", "");
  files_.write("cgroup/a/plain/cgroup.procs", "");
  add(kFirst, {.cgroup = "/a/plain"});
  add(kFirst + 1, {.cgroup = "/gone"});
  add(kFirst + 2, {.cgroup = "/../outside"});
  const auto samples = scan();
  ASSERT_THAT(samples, SizeIs(3));
  EXPECT_EQ(samples[0].cgroup, id_of("/a"));
  EXPECT_EQ(samples[1].cgroup, CgroupId{});
  EXPECT_EQ(samples[2].cgroup, CgroupId{});
}

TEST_F(ProcSourceV1Test, AnExitingOneIsWhereItWasListedNotInTheRoot) {
  add_cgroup("/a", std::to_string(kFirst) + "\n");
  add(kFirst, {.flags = 4, .cgroup = "/"});
  const auto samples = scan(id_of("/a"));
  ASSERT_THAT(samples, SizeIs(1));
  EXPECT_EQ(samples.front().cgroup, id_of("/a"));
  EXPECT_EQ(scan().front().cgroup, CgroupId{});
}

TEST_F(ProcSourceTest, OrderIsForkOrderThenPid) {
  add(kFirst, {.start = 8});
  add(kFirst + 1, {.start = 7});
  add(kFirst + 2, {.start = 7});
  auto samples = scan();
  std::ranges::sort(samples, {}, &ProcessSample::order);
  ASSERT_THAT(samples, SizeIs(3));
  EXPECT_EQ(samples[0].id.pid, kFirst + 1);
  EXPECT_EQ(samples[1].id.pid, kFirst + 2);
  EXPECT_EQ(samples[2].id.pid, kFirst);
}

TEST_F(ProcSourceTest, V2ShowsTheKernelsWalk) {
  add_cgroup("/a", std::to_string(kFirst + 1) + "\n" + std::to_string(kFirst) + "\n");
  add(kFirst, {.cgroup = "/a"});
  add(kFirst + 1, {.cgroup = "/a"});
  auto samples = scan();
  const auto known = source()->order(samples, {0, 1});
  ASSERT_TRUE(known.ok()) << known.error().text();
  EXPECT_TRUE(*known);
  EXPECT_LT(samples[1].order, samples[0].order);
}

TEST_F(ProcSourceV1Test, V1DoesNot) {
  add_cgroup("/a", std::to_string(kFirst) + "\n");
  add(kFirst, {.cgroup = "/a"});
  auto samples = scan();
  const auto before = samples;
  EXPECT_FALSE(source()->order(samples, {0}).value());
  EXPECT_EQ(samples, before);
}

}  // namespace
}  // namespace forestall::sources
