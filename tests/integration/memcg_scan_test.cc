// SPDX-License-Identifier: Apache-2.0
// The pass over all cgroups against the kernel's files: idle, while memory grows, and with removed
// cgroups, forks and threads.
#include "kernel/memcg_scan.h"

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

#include "kernel/cgroup_tree.h"
#include "sources/observer.h"
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

// What the files show.
struct Files {
  Bytes usage, inactive_file, anon, shmem;
};

class MemcgScanTest : public testing::Test {
 protected:
  MemcgScanTest() {
    auto loaded = MemcgScan::load();
    if (loaded.ok()) {
      scan_ = std::move(*loaded);
    } else if (loaded.error().code == EPERM) {
      refused_ = loaded.error().text();
    } else {
      throw std::runtime_error(loaded.error().text());
    }
  }
  // Some hosts refuse iterators of map elements alone; the agent then reads files.
  void SetUp() override {
    if (!scan_) GTEST_SKIP() << "not applicable: " << refused_ << "; runs in the guests";
  }

  [[nodiscard]] CgroupId id(const std::string& path) const {
    struct stat status {};
    if (::stat(groups_.directory(path).c_str(), &status) != 0) throw std::runtime_error(path);
    return CgroupId{status.st_ino};
  }

  std::optional<MemcgUsage> pass(CgroupId cgroup) {
    const auto done = scan_->scan({.counters = true});
    EXPECT_TRUE(done.ok()) << done.error().text();
    const MemcgUsage* found = scan_->find(cgroup);
    if (found == nullptr) return std::nullopt;
    return *found;
  }
  MemcgUsage pass(const std::string& path) {
    const auto found = pass(id(path));
    EXPECT_TRUE(found) << path;
    return found.value_or(MemcgUsage());
  }

  [[nodiscard]] Files files(const std::string& path) const {
    const bool v1 = mounts().v1;
    std::istringstream stat(groups_.read(path, "memory.stat"));
    Files all{groups_.usage(path), {}, {}, {}};
    std::string name;
    for (std::int64_t value = 0; stat >> name >> value;) {
      if (name == (v1 ? "total_inactive_file" : "inactive_file")) all.inactive_file = Bytes{value};
      if (name == (v1 ? "total_rss" : "anon")) all.anon = Bytes{value};
      if (name == (v1 ? "total_shmem" : "shmem")) all.shmem = Bytes{value};
    }
    return all;
  }

  // A process in the group that holds anonymous and shared memory and has read `file`.
  Child holder(const std::string& path, Bytes anon, Bytes shared, const std::string& file) {
    return Child([=, this] {
      groups_.add(path, ::getpid());
      const int memory = ::memfd_create("shared", MFD_CLOEXEC);
      std::vector<char> block(static_cast<std::size_t>(mib(1).count), 1);
      for (Bytes done{0}; done < shared; done = done + mib(1)) {
        if (::write(memory, block.data(), block.size()) < 0) return 1;
      }
      const int input = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
      while (::read(input, block.data(), block.size()) > 0) {
      }
      std::vector<char> held(static_cast<std::size_t>(anon.count), 1);
      for (;;) ::pause();
      return held.empty() ? 1 : 0;
    });
  }

  ScratchCgroup groups_;
  std::unique_ptr<MemcgScan> scan_;
  std::string refused_;  // why there is none
};

// A file whose pages are in no cgroup yet.
class UnreadFile {
 public:
  explicit UnreadFile(Bytes size)
      : path_(std::filesystem::temp_directory_path() /
              ("forestall-pages-" + std::to_string(::getpid()))) {
    const std::vector<char> block(static_cast<std::size_t>(size.count), 'x');
    std::ofstream(path_).write(block.data(), size.count);
    const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    ::fsync(file);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
  UnreadFile(const UnreadFile&) = delete;
  UnreadFile& operator=(const UnreadFile&) = delete;
  ~UnreadFile() { std::filesystem::remove(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

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

// The agent's samples of workloads, with the pass and without.
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
  while ((!complete() || passed != read || read.empty()) && SystemClock().now() < end) {
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
  hog.grow(mib(16));
  ASSERT_TRUE(hog.wait_grown());
  observer_->add_workloads(observation, {}, sources::kUnscored);
  EXPECT_GE(observation.watched[0].usage, mib(16));
  EXPECT_EQ(observation.watched[0].usage, scan_->find(id(groups_.path()))->usage);
  EXPECT_EQ(observation.watched[0].inactive_file, scan_->find(id(groups_.path()))->inactive_file);
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
  for (int i = 0; i < 200; ++i) many.push_back(groups_.child("a/inner/" + std::to_string(i)));
  EXPECT_GT(cgroups_after_sampling(), 200U);
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
