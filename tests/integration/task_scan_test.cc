// SPDX-License-Identifier: Apache-2.0
// The walk in the kernel against other kernel interfaces: scores, members of cgroups, the order of
// a cgroup's processes; with idle processes, and with processes that start and exit.
#include "kernel/task_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>

#include "support/allocation_count.h"
#include "support/child.h"
#include "support/process_forest.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

using kernel::RssCounting;
using kernel::TaskQuery;
using kernel::TaskScan;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;

using Records = std::map<pid_t, abi_task>;

std::unique_ptr<TaskScan> load() {
  Result<std::unique_ptr<TaskScan>> scan = TaskScan::load();
  if (!scan.ok()) throw std::runtime_error(scan.error().text());
  return std::move(scan).value();
}

// RAM + swap, as in proc_oom_score().
Pages node_pages() {
  std::ifstream file("/proc/meminfo");
  Pages kib = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    Pages amount = 0;
    words >> name >> amount;
    if (name == "MemTotal:" || name == "SwapTotal:") kib += amount;
  }
  return kib * 1024 / sysconf(_SC_PAGESIZE);
}

// Fails if a process is seen twice, out of order, or in part.
Records scan_all(TaskScan& scan, std::optional<CgroupId> subtree = std::nullopt) {
  Records records;
  pid_t last = 0;
  const TaskQuery query{subtree, node_pages(), true};
  const Result<void> done = scan.visit(query, [&](const abi_task& task) {
    EXPECT_GT(task.tgid, last);
    last = task.tgid;
    EXPECT_NE(task.start_ns, 0U);
    EXPECT_NE(task.comm[0], '\0') << task.tgid;
    EXPECT_EQ(task.comm[ABI_TASK_COMM_LENGTH - 1], '\0');
    const bool no_memory = (task.flags & ABI_TASK_NO_MEMORY) != 0;
    EXPECT_EQ(task.memory_id == 0, no_memory) << task.tgid;
    EXPECT_EQ(task.page_table_bytes == 0, no_memory) << task.tgid;
    EXPECT_EQ(task.pid != task.tgid, (task.flags & ABI_TASK_STANDS_IN) != 0);
    records.emplace(task.tgid, task);
  });
  EXPECT_TRUE(done.ok()) << done.error().text();
  return records;
}

std::vector<pid_t> pids_of(const Records& records) {
  std::vector<pid_t> pids;
  for (const auto& [pid, record] : records) pids.push_back(pid);
  return pids;
}

CgroupId id_of(const ScratchCgroup& scratch, const std::string& path) {
  struct stat status {};
  if (stat(scratch.directory(path).c_str(), &status) != 0) throw std::runtime_error(path);
  return CgroupId{status.st_ino};
}

std::optional<std::int64_t> kernels_score(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/oom_score");
  std::int64_t score = 0;
  if (file >> score) return score;
  return std::nullopt;
}

bool stood_still(const abi_task& before, const abi_task& after) {
  return std::ranges::equal(before.counted, after.counted) &&
         std::ranges::equal(before.summed, after.summed) &&
         before.page_table_bytes == after.page_table_bytes && before.points == after.points &&
         before.start_ns == after.start_ns && before.flags == after.flags;
}

// /proc/PID/stat from its third field on, the state; empty if the process is gone.
std::vector<std::string> split_stat(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return {};
  std::istringstream words(line.substr(line.rfind(')') + 1));
  return {std::istream_iterator<std::string>(words), {}};
}

// A process that waits until it is killed.
Child sleeper() {
  return Child([] {
    for (;;) pause();
    return 0;
  });
}

TEST(TaskScan, CountsAsTheKernelDoes) {
  const auto scan = load();
  const kernel::Calibration& calibration = scan->calibration();
  EXPECT_TRUE(calibration.proven) << calibration.evidence;
  std::cout << to_string(calibration.counting) << ": " << calibration.evidence << '\n';
  // Both ways work on every kernel, also if it has no BTF of its data.
  for (const auto& [pid, record] : scan_all(*scan)) {
    EXPECT_EQ(record.flags & ABI_TASK_NO_SUM, 0U);
  }
}

TEST(TaskScan, ScoresMatchTheKernel) {
  ForestShape shape;
  shape.processes = 520;
  shape.lowest_adj = 0;
  ProcessForest forest(shape);
  const auto scan = load();
  const Pages total = node_pages();

  const Records before = scan_all(*scan);
  std::map<pid_t, std::int64_t> scores;
  for (const auto& [pid, record] : before) {
    if (const auto score = kernels_score(pid)) scores[pid] = *score;
  }
  const Records after = scan_all(*scan);

  int compared = 0, stirring = 0, unkillable = 0;
  for (const auto& [pid, score] : scores) {
    const auto again = after.find(pid);
    if (again == after.end() || !stood_still(before.at(pid), again->second)) {
      ++stirring;
      continue;
    }
    const Pages points = again->second.points;
    if (points == ABI_TASK_UNKILLABLE) ++unkillable;
    const std::int64_t expected =
        points == ABI_TASK_UNKILLABLE ? 0 : kernel::score_of(points, total);
    EXPECT_EQ(expected, score) << pid << ' ' << again->second.comm;
    ++compared;
  }
  for (const pid_t pid : forest.alive()) {
    ASSERT_TRUE(before.contains(pid) && after.contains(pid)) << pid;
    EXPECT_TRUE(stood_still(before.at(pid), after.at(pid))) << pid;
  }
  EXPECT_GE(forest.alive().size(), 500U);
  EXPECT_GE(compared, static_cast<int>(forest.alive().size()));
  std::cout << "@metric scores_compared " << compared << "\n@metric scores_stirring " << stirring
            << "\n@metric scores_unkillable " << unkillable << '\n';
}

TEST(TaskScan, HandlesSharedMemoryDeadLeadersAndVfork) {
  ForestShape shape;
  shape.processes = 300;
  shape.lowest_adj = 0;
  ProcessForest forest(shape);
  const auto scan = load();
  const Records records = scan_all(*scan, id_of(forest.groups(), forest.root()));
  EXPECT_THAT(pids_of(records), UnorderedElementsAreArray(forest.alive()));
  int shared = 0, stood_in = 0, borrowed = 0;
  for (const ForestProcess& process : forest.processes()) {
    const abi_task& record = records.at(process.pid);
    EXPECT_EQ((record.flags & ABI_TASK_STANDS_IN) != 0, process.leader_gone) << process.pid;
    if (process.leader_gone) ++stood_in;
    EXPECT_EQ(record.uid == 65534, process.other_user) << process.pid;
    EXPECT_EQ(record.oom_score_adj, process.oom_score_adj);
    if (process.sharer == Sharer::none) continue;
    const abi_task& sharer = records.at(process.sharer_pid);
    EXPECT_EQ(sharer.memory_id, record.memory_id);
    EXPECT_EQ((sharer.flags & ABI_TASK_IN_VFORK) != 0, process.sharer == Sharer::vfork);
    ++(process.sharer == Sharer::vfork ? borrowed : shared);
  }
  std::map<std::uint64_t, int> holders;
  for (const auto& [pid, record] : records) ++holders[record.memory_id];
  EXPECT_EQ(std::ranges::count_if(holders, [](const auto& each) { return each.second > 1; }),
            shared + borrowed);
  EXPECT_GT(shared, 0);
  EXPECT_GT(stood_in, 0);
  EXPECT_GT(borrowed, 0);
}

TEST(TaskScan, AZombieHasNoMemory) {
  const auto scan = load();
  Child child([] { return 0; });
  ASSERT_TRUE(child.wait_exit());
  const Records records = scan_all(*scan);
  ASSERT_TRUE(records.contains(child.pid()));
  EXPECT_TRUE(records.at(child.pid()).flags & ABI_TASK_NO_MEMORY);
  EXPECT_EQ(records.at(child.pid()).points, ABI_TASK_UNKILLABLE);
}

TEST(TaskScan, InitIsFlaggedAndKernelThreadsAreLeftOut) {
  const auto scan = load();
  for (const auto& [pid, record] : scan_all(*scan)) {
    EXPECT_EQ((record.flags & ABI_TASK_INIT) != 0, pid == 1);
    // PF_KTHREAD.
    const auto stat = split_stat(pid);
    if (stat.size() <= 6) continue;
    EXPECT_EQ(std::stoull(stat[6]) & 0x200000, 0U) << pid;
  }
}

TEST(TaskScan, ASubtreeIncludesAllDescendants) {
  const auto scan = load();
  ScratchCgroup scratch;
  const std::string outer = scratch.child("a");
  const std::string inner = scratch.child("a/b/c/d");
  const std::string other = scratch.child("ab");
  std::vector<Child> children;
  std::map<std::string, std::vector<pid_t>> members;
  // v2 has no processes beside children with controllers.
  for (const std::string& path : {inner, other, mounts().v1 ? outer : inner}) {
    for (int i = 0; i < 3; ++i) {
      children.push_back(sleeper());
      scratch.add(path, children.back().pid());
      members[path].push_back(children.back().pid());
    }
  }
  const auto found = [&](const std::string& path) {
    return pids_of(scan_all(*scan, id_of(scratch, path)));
  };
  EXPECT_THAT(found(inner), UnorderedElementsAreArray(members[inner]));
  EXPECT_THAT(found(other), UnorderedElementsAreArray(members[other]));
  std::vector<pid_t> both = members[inner];
  both.insert(both.end(), members[outer].begin(), members[outer].end());
  EXPECT_THAT(found(outer), UnorderedElementsAreArray(both));
  EXPECT_THAT(found(scratch.path()).size(), children.size());
  EXPECT_THAT(pids_of(scan_all(*scan, id_of(scratch, "/"))),
              testing::IsSupersetOf(found(scratch.path())));
  EXPECT_THAT(pids_of(scan_all(*scan, CgroupId{~0ULL})), IsEmpty());
  for (const auto& [pid, record] : scan_all(*scan, id_of(scratch, other))) {
    EXPECT_EQ(record.cgroup, id_of(scratch, other).inode);
  }
}

TEST(TaskScan, StartsAndExitsLeaveEveryRecordComplete) {
  ScratchCgroup scratch;
  const std::string path = scratch.child("storm");
  std::vector<Child> still;
  for (int i = 0; i < 20; ++i) {
    still.push_back(sleeper());
    scratch.add(path, still.back().pid());
  }
  auto* births = static_cast<std::atomic<std::uint64_t>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(births, MAP_FAILED);
  std::vector<Child> storm;
  for (int i = 0; i < 4; ++i) {
    storm.emplace_back([births] {
      for (;;) {
        const pid_t child = fork();
        if (child == 0) _exit(0);
        if (child > 0) {
          ++*births;
          waitpid(child, nullptr, 0);
        }
      }
      return 0;
    });
    scratch.add(path, storm.back().pid());
  }
  const auto scan = load();
  const std::uint64_t first = births->load();
  int scans = 0;
  std::size_t seen = 0;
  while (births->load() < first + 2000 || scans < 200) {
    const Records records = scan_all(*scan, id_of(scratch, path));
    for (const Child& each : still) ASSERT_TRUE(records.contains(each.pid()));
    for (const Child& each : storm) ASSERT_TRUE(records.contains(each.pid()));
    for (const auto& [pid, record] : records) {
      ASSERT_EQ(record.cgroup, id_of(scratch, path).inode);
    }
    seen += records.size() - still.size() - storm.size();
    ++scans;
  }
  EXPECT_GT(seen, 0U) << "no scan met a process of the storm";
  std::cout << "@metric storm_scans " << scans << "\n@metric storm_births "
            << births->load() - first << "\n@metric storm_seen " << seen << '\n';
  storm.clear();
  munmap(births, 4096);
}

TEST(TaskScan, ACgroupsOrderIsThatInWhichProcessesCameIn) {
  const auto scan = load();
  ScratchCgroup scratch;
  const std::string here = scratch.child("here");
  const std::string there = scratch.child("there");
  std::vector<Child> children;
  std::vector<pid_t> pids;
  for (int i = 0; i < 6; ++i) {
    children.push_back(sleeper());
    pids.push_back(children.back().pid());
  }
  const auto order = [&](const std::string& path) {
    return scan->walk_order(id_of(scratch, path)).value();
  };
  EXPECT_THAT(order(here), IsEmpty());
  for (const int i : {3, 0, 5, 1}) scratch.add(here, pids[static_cast<std::size_t>(i)]);
  for (const int i : {4, 2}) scratch.add(there, pids[static_cast<std::size_t>(i)]);
  EXPECT_THAT(order(here), ElementsAre(pids[3], pids[0], pids[5], pids[1]));
  EXPECT_THAT(order(there), ElementsAre(pids[4], pids[2]));
  // A process that leaves and returns is the last.
  scratch.add(there, pids[0]);
  EXPECT_THAT(order(here), ElementsAre(pids[3], pids[5], pids[1]));
  scratch.add(here, pids[0]);
  EXPECT_THAT(order(here), ElementsAre(pids[3], pids[5], pids[1], pids[0]));
  // Children come later, whichever process is their parent.
  scratch.add(here, pids[4]);
  EXPECT_THAT(order(here), ElementsAre(pids[3], pids[5], pids[1], pids[0], pids[4]));
  EXPECT_THAT(order(there), ElementsAre(pids[2]));
}

TEST(TaskScan, ProcessesOfOneCssSetComeTogether) {
  if (!mounts().v1 || mounts().unified.empty()) {
    GTEST_SKIP() << "not applicable: one hierarchy only; runs on hybrid hosts and 6.1 v1";
  }
  const auto scan = load();
  ScratchCgroup scratch;
  const std::string group = scratch.child("group");
  const std::string other = scratch.child("other");
  std::vector<Child> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(sleeper());
    scratch.add(group, children.back().pid());
  }
  // In the other hierarchy: another css_set, which is younger.
  std::ofstream(scratch.unified_directory(other) + "/cgroup.procs") << children[1].pid();
  EXPECT_THAT(
      scan->walk_order(id_of(scratch, group)).value(),
      ElementsAre(children[0].pid(), children[2].pid(), children[3].pid(), children[1].pid()));
}

TEST(TaskScan, TheNodesOrderIsThatOfForks) {
  const auto scan = load();
  std::vector<pid_t> pids;
  std::vector<Child> children;
  for (int i = 0; i < 40; ++i) {
    children.push_back(sleeper());
    pids.push_back(children.back().pid());
  }
  std::vector<pid_t> order = scan->walk_order(CgroupId{}).value();
  EXPECT_EQ(order.at(0), 1);
  std::erase_if(order, [&](pid_t pid) { return std::ranges::find(pids, pid) == pids.end(); });
  EXPECT_THAT(order, ElementsAreArray(pids));
}

TEST(TaskScan, AllocatesNothing) {
  const auto scan = load();
  Pages sum = 0;
  int processes = 0;
  const std::function<void(const abi_task&)> visit = [&](const abi_task& task) {
    sum += kernel::pages_of(task, RssCounting::counted);
    ++processes;
  };
  const TaskQuery query{std::nullopt, node_pages(), true};
  const std::uint64_t before = allocation_count();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(scan->visit(query, visit).ok());
  EXPECT_EQ(allocation_count(), before);
  EXPECT_GT(processes, 10);
  EXPECT_GT(sum, 0);
}

}  // namespace
}  // namespace forestall::test
