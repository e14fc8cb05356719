// SPDX-License-Identifier: Apache-2.0
// The pass over all cgroups against the kernel's files: idle, while memory grows, and with removed
// cgroups, forks and threads.
#include "kernel/memcg_scan.h"
#include "kernel/cgroup_tree.h"
#include "kernel/process_ref.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "integration/memcg_pass.h"
#include "support/allocation_count.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

using kernel::MemcgScan;
using kernel::MemcgUsage;

// How far memory.stat is behind, as the kernel intends it: a batch (MEMCG_CHARGE_BATCH of
// include/linux/memcontrol.h, 64 pages) on each CPU, and one more for each in their sum.
Bytes stat_lag() {
  return Bytes{2 * 64 * ::sysconf(_SC_NPROCESSORS_CONF) * ::sysconf(_SC_PAGESIZE)};
}

// While it exists nothing can be opened, not even in place of what was closed.
class NothingOpens {
 public:
  NothingOpens() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{0, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  NothingOpens(const NothingOpens&) = delete;
  NothingOpens& operator=(const NothingOpens&) = delete;
  ~NothingOpens() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

Bytes apart(Bytes a, Bytes b) {
  return a < b ? b - a : a - b;
}

// Two groups hold memory of all kinds; memory.stat is exact once the kernel has flushed it.
TEST_F(MemcgScanTest, MatchesTheFilesOfIdleCgroups) {
  const std::string pod = groups_.child("pod");
  const std::string a = groups_.child("pod/a");
  const std::string b = groups_.child("pod/b");
  const UnreadFile file(mib(24));
  const Child first = holder(a, mib(20), mib(8), file.path());
  const Child second = holder(b, mib(4), mib(12), "/dev/null");
  const MonotonicTime end = SystemClock().now() + kPatience;
  std::string differs = "?";
  while (!differs.empty() && SystemClock().now() < end) {
    differs.clear();
    for (const std::string& path : {a, b, pod}) {
      const MemcgUsage seen = pass(path);
      const Files expected = files(path);
      const MemcgUsage again = pass(path);
      std::ostringstream text;
      if (seen.usage != expected.usage) text << " usage";
      if (seen.inactive_file != expected.inactive_file) text << " inactive_file";
      if (seen.anon && *seen.anon != expected.anon) text << " anon";
      if (seen.shmem && *seen.shmem != expected.shmem) text << " shmem";
      if (expected.usage < mib(path == a ? 28 : path == b ? 16 : 44) || again.usage != seen.usage)
        text << " (still growing)";
      if (!text.str().empty()) differs += path + text.str() + "; ";
    }
  }
  EXPECT_EQ(differs, "");
  const MemcgUsage all = pass(pod);
  EXPECT_GE(all.usage, mib(44));
  EXPECT_EQ(all.processes, 2U);
  std::cout << scan_->evidence() << "\n@metric memcg_inactive_file "
            << (all.inactive_file.value_or(Bytes{-1}).count >> 20) << " MiB\n";
  EXPECT_TRUE(all.anon) << scan_->evidence();
  EXPECT_TRUE(all.shmem) << scan_->evidence();
}

// While memory only grows, a value of the files lies between those of two passes, except for what
// CPUs hold back. memory.stat may be further behind: the kernel misses some updates until its flush
// every two seconds. So the page counter, which is exact, judges the pass in each round.
TEST_F(MemcgScanTest, DiffersFromTheFilesByWhatCpusHoldBackWhileMemoryGrows) {
  const std::string pod = groups_.child("pod");
  const std::string leaf = groups_.child("pod/leaf");
  const UnreadFile file(mib(64));
  const Hog hog(groups_, leaf, mib(4));
  hog.grow(mib(96), mib(96));
  const Child reader = holder(leaf, mib(1), mib(1), file.path());
  const Bytes bound = stat_lag();
  // Kernel memory of two processes, their code, and what they free before they wait.
  constexpr Bytes kOther = mib(8);
  Bytes ahead{0}, behind{0}, unaccounted{0};
  int rounds = 0, stale = 0;
  for (bool growing = true; growing; ++rounds) {
    growing = !hog.wait_grown(std::chrono::milliseconds(0)) && rounds < 20'000;
    const MemcgUsage before = pass(pod);
    const Files read = files(pod);
    const MemcgUsage after = pass(pod);
    ASSERT_TRUE(before.anon && before.shmem && after.anon);
    ASSERT_TRUE(before.inactive_file && before.active_file && after.inactive_file);
    const Bytes accounted =
        *before.anon + *before.shmem + *before.inactive_file + *before.active_file;
    ASSERT_LE(accounted, after.usage + bound) << rounds;
    ASSERT_GE(accounted + kOther, before.usage) << rounds;
    unaccounted = std::max(unaccounted, apart(before.usage, accounted));
    ahead = std::max({ahead, read.inactive_file - *after.inactive_file, read.anon - *after.anon});
    const Bytes late =
        std::max(*before.inactive_file - read.inactive_file, *before.anon - read.anon);
    if (late > bound) ++stale;
    behind = std::max(behind, late);
  }
  std::cout << "@metric memcg_rounds " << rounds << "\n@metric memcg_file_ahead "
            << (ahead.count >> 10) << " KiB\n@metric memcg_file_behind " << (behind.count >> 10)
            << " KiB\n@metric memcg_file_behind_by_more_than_the_bound " << stale
            << " rounds\n@metric memcg_unaccounted " << (unaccounted.count >> 10)
            << " KiB\n@metric memcg_bound " << (bound.count >> 10) << " KiB\n";
  EXPECT_GT(rounds, 20);
  EXPECT_LE(ahead, bound);
  // The periodic flush ends any lag above the bound.
  const MonotonicTime end = SystemClock().now() + kPatience;
  const auto agree = [&] {
    const Files read = files(pod);
    const MemcgUsage now = pass(pod);
    return apart(read.inactive_file, now.inactive_file.value_or(Bytes{0})) <= bound &&
           apart(read.anon, *now.anon) <= bound && apart(read.usage, now.usage) <= bound;
  };
  while (!agree() && SystemClock().now() < end) {
  }
  EXPECT_TRUE(agree());
}

// Shared memory outlives the cgroup that it is charged to.
TEST_F(MemcgScanTest, ARemovedCgroupIsMarkedAndItsMemoryCountsAbove) {
  const std::string pod = groups_.child("pod");
  const std::string leaf = groups_.child("pod/leaf");
  const int shared = ::memfd_create("left", MFD_CLOEXEC);
  Child writer([&] {
    groups_.add(leaf, ::getpid());
    const std::vector<char> block(static_cast<std::size_t>(mib(16).count), 1);
    return ::write(shared, block.data(), block.size()) < 0 ? 1 : 0;
  });
  ASSERT_TRUE(writer.wait_exit());
  ASSERT_EQ(writer.reap(), 0);
  const CgroupId removed = id(leaf);
  EXPECT_FALSE(pass(leaf).removed);
  groups_.remove_child(leaf);
  const auto left = pass(removed);
  EXPECT_TRUE(!left || left->removed);
  const MemcgUsage above = pass(pod);
  EXPECT_GE(above.usage, mib(16));
  ASSERT_TRUE(above.shmem);
  EXPECT_LE(apart(*above.shmem, mib(16)), stat_lag());
  EXPECT_EQ(above.processes, 0U);
  ::close(shared);
}

TEST_F(MemcgScanTest, CountsThreadGroupsWithLiveThreads) {
  const std::string path = groups_.child("group");
  EXPECT_EQ(pass(path).processes, 0U);
  std::vector<Child> children;
  for (int i = 0; i < 3; ++i) {
    children.emplace_back([&] {
      groups_.add(path, ::getpid());
      std::thread([] {
        for (;;) ::pause();
      }).detach();
      for (;;) ::pause();
      return 0;
    });
  }
  const MonotonicTime end = SystemClock().now() + kPatience;
  while (pass(path).processes != 3U && SystemClock().now() < end) continue;
  EXPECT_EQ(pass(path).processes, 3U);
  EXPECT_EQ(pass(groups_.path()).processes, 3U);
  // A zombie is none.
  ASSERT_EQ(::kill(children[0].pid(), SIGKILL), 0);
  ASSERT_TRUE(children[0].wait_exit());
  EXPECT_EQ(pass(path).processes, 2U);
}

TEST_F(MemcgScanTest, ListsTheProcessesOfACgroupAndThoseBelow) {
  const std::string above = groups_.child("above");  // on v2 only leaves hold processes
  const std::string left = groups_.child("above/left");
  const std::string below = groups_.child("above/below");
  const std::string beside = groups_.child("beside");
  const Child first = holder(left, mib(1), mib(0), "/dev/null");
  const Child second = holder(below, mib(1), mib(0), "/dev/null");
  const Child other = holder(beside, mib(1), mib(0), "/dev/null");
  const auto pids_in = [&](const std::string& path) {
    std::vector<pid_t> pids;
    const auto found = list(id(path));
    EXPECT_TRUE(found.ok()) << found.error().text();
    for (const auto& each : found.optional().value_or(std::vector<kernel::ListedProcess>())) {
      EXPECT_EQ(each.start_ticks, kernel::read_process_stat(each.pid)->start_ticks);
      EXPECT_FALSE(each.apart);
      pids.push_back(each.pid);
    }
    return pids;
  };
  const MonotonicTime end = SystemClock().now() + kPatience;
  while (pass(groups_.path()).processes != 3U && SystemClock().now() < end) continue;
  EXPECT_THAT(pids_in(above), testing::UnorderedElementsAre(first.pid(), second.pid()));
  EXPECT_THAT(pids_in(below), testing::UnorderedElementsAre(second.pid()));
  EXPECT_THAT(pids_in(groups_.path()),
              testing::UnorderedElementsAre(first.pid(), second.pid(), other.pid()));
  EXPECT_EQ(scan_->listed_path(), mounts().v1 ? std::optional(groups_.path()) : std::nullopt);
  EXPECT_THAT(pids_in(groups_.child("empty")), testing::IsEmpty());
  EXPECT_EQ(pass(above).processes, 2U) << "a pass over the memory still reads all";
  const auto none = list(CgroupId{std::uint64_t{1} << 62});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ENOENT);
  EXPECT_FALSE(scan_->listed_path());
}

TEST_F(MemcgScanTest, AStormOfForksNeitherMiscountsNorFails) {
  const std::string path = groups_.child("storm");
  std::vector<Child> storm;
  for (int i = 0; i < 3; ++i) {
    storm.emplace_back([&] {
      groups_.add(path, ::getpid());
      for (;;) {
        const pid_t child = ::fork();
        if (child == 0) ::_exit(0);
        if (child > 0) ::waitpid(child, nullptr, 0);
      }
      return 0;
    });
  }
  const MonotonicTime end = SystemClock().now() + kPatience;
  for (const Child& each : storm) {
    // Not by their number: a child of one counts too.
    const auto joined = [&] { return std::ranges::count(groups_.processes(path), each.pid()) > 0; };
    while (!joined() && SystemClock().now() < end) continue;
  }
  int unknown = 0;
  for (int i = 0; i < 500; ++i) {
    const auto processes = pass(path).processes;
    if (!processes) ++unknown;
    // Each has one child at most.
    EXPECT_GE(processes.value_or(3), 3U);
    EXPECT_LE(processes.value_or(3), 6U);
  }
  EXPECT_LT(unknown, 500);
  std::cout << "@metric memcg_torn_counts " << unknown << " of 500\n";
}

TEST_F(MemcgScanTest, APassBeginsAtACgroup) {
  const std::string pod = groups_.child("pod");
  const std::string leaf = groups_.child("pod/leaf");
  const std::string other = groups_.child("other");
  ASSERT_TRUE(pass(id(other)));
  const auto tree = kernel::CgroupTree::discover().value();
  {
    const auto directory = tree.open(pod).value();
    ASSERT_TRUE(scan_->begin_at(directory.fd()).ok());
  }
  EXPECT_TRUE(pass(id(pod)));
  EXPECT_TRUE(pass(id(leaf)));
  EXPECT_FALSE(pass(id(other)));
  EXPECT_EQ(scan_->all().size(), 2U);
  const CgroupId removed = id(leaf);
  groups_.remove_child(leaf);
  groups_.remove_child(pod);
  const auto gone = scan_->scan();
  // The kernel frees it a while after the removal, and until then it is a removed one.
  if (!gone.ok()) {
    EXPECT_EQ(gone.error().code, ENOENT) << gone.error().text();
    EXPECT_EQ(scan_->find(removed), nullptr);
  } else {
    EXPECT_TRUE(scan_->all().front().removed);
  }
}

// What opens something may wait, for memory as well.
TEST_F(MemcgScanTest, APassOpensNothing) {
  const NothingOpens none;
  for (int i = 0; i < 20; ++i) {
    const auto done = scan_->scan();
    ASSERT_TRUE(done.ok()) << done.error().text();
  }
}

TEST_F(MemcgScanTest, ManyPassesServe) {
  const auto directory = kernel::CgroupTree::discover()->open(groups_.path()).value();
  ASSERT_TRUE(scan_->begin_at(directory.fd()).ok());
  for (int i = 0; i < 2 * ABI_MEMCG_RUNS + 10; ++i) {
    const auto done = scan_->scan();
    ASSERT_TRUE(done.ok()) << i << ": " << done.error().text();
    ASSERT_EQ(scan_->all().size(), 1U) << i;
  }
}

TEST_F(MemcgScanTest, RenewedInTimeItNeverOpensDuringAPass) {
  const auto directory = kernel::CgroupTree::discover()->open(groups_.path()).value();
  ASSERT_TRUE(scan_->begin_at(directory.fd()).ok());
  for (int i = 0; i < ABI_MEMCG_RUNS - 1; ++i) ASSERT_TRUE(scan_->scan().ok()) << i;
  scan_->renew();
  const NothingOpens none;
  for (int i = 0; i < ABI_MEMCG_RUNS / 2; ++i) ASSERT_TRUE(scan_->scan().ok()) << i;
}

TEST_F(MemcgScanTest, AllocatesNothing) {
  ASSERT_TRUE(scan_->scan().ok());
  const std::size_t before = allocation_count();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(scan_->scan().ok());
  // Other cgroups of this machine may have come in between.
  EXPECT_LE(allocation_count() - before, 3U);
}

}  // namespace
}  // namespace forestall::test
