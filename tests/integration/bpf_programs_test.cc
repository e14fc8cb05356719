// SPDX-License-Identifier: Apache-2.0
// The BPF programs on the running kernel: their reports against the kernel's files. Runs on the
// host (tracepoint tier, memcg v1) and in the VMs (full tier, v1 and v2).
#include "kernel/bpf_programs.h"

#include <bpf/bpf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <dirent.h>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "integration/bpf_events.h"
#include "kernel/memory_files.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

using kernel::BpfPrograms;

std::string describe(const std::vector<FeatureReport>& reports) {
  std::ostringstream text;
  for (const FeatureReport& report : reports) {
    text << to_string(report.feature) << ": " << to_string(report.state) << ": " << report.evidence
         << "\n";
  }
  return text.str();
}

std::int64_t vmstat_bytes(const std::string& key) {
  std::ifstream file("/proc/vmstat");
  std::string name;
  std::int64_t pages = 0;
  while (file >> name >> pages) {
    if (name == key) return pages * ::sysconf(_SC_PAGESIZE);
  }
  throw std::runtime_error("/proc/vmstat without " + key);
}

struct NodeFiles {
  std::int64_t file = vmstat_bytes("nr_file_pages");
  std::int64_t anon = vmstat_bytes("nr_anon_pages");
  std::int64_t inactive_file = vmstat_bytes("nr_inactive_file");
  std::int64_t free = vmstat_bytes("nr_free_pages");
  std::int64_t available =
      kernel::parse_meminfo(read_text("/proc/meminfo")).value().available.value().count;
};

// Field `key` of a "key value" file of a cgroup.
std::optional<std::uint64_t> keyed(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  std::string name;
  std::uint64_t value = 0;
  while (lines >> name >> value) {
    if (name == key) return value;
  }
  return std::nullopt;
}

// Microseconds of `some total=` in memory.pressure of the group, with everything before the call.
// The kernel adds it up when the file is read, at most once in two seconds (PSI_FREQ in
// kernel/sched/psi.c), so this waits for a read in the next period.
std::uint64_t psi_some_us(const ScratchCgroup& scratch, const std::string& path) {
  const std::string file =
      (mounts().v1 ? scratch.unified_directory(path) : scratch.directory(path)) +
      "/memory.pressure";
  static_cast<void>(read_text(file));
  const UniqueFd period(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  const itimerspec once{{0, 0}, {2, 100'000'000}};
  std::uint64_t expirations = 0;
  if (::timerfd_settime(period.get(), 0, &once, nullptr) != 0 ||
      ::read(period.get(), &expirations, sizeof(expirations)) < 0) {
    throw std::runtime_error("timerfd");
  }
  const std::string text = read_text(file);
  const std::size_t at = text.find("total=");
  return std::stoull(text.substr(at + 6));
}

// A cpuset or taskset may exclude CPU 0.
cpu_set_t first_permitted_cpu() {
  cpu_set_t permitted;
  if (::sched_getaffinity(0, sizeof(permitted), &permitted) != 0) {
    throw std::runtime_error("sched_getaffinity");
  }
  int cpu = 0;
  while (!CPU_ISSET(cpu, &permitted)) ++cpu;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  return one;
}

// "/l/l/l…"
std::string levels(int count) {
  std::string path;
  for (int i = 0; i < count; ++i) path += "/l";
  return path;
}

class BpfProgramsTest : public BpfSuite {
 protected:
  // So that the timer is under test.
  static BpfPrograms& without_charge() { return programs_without(set_of({Feature::bpf_charge})); }
};

TEST_F(BpfProgramsTest, EveryFeatureHasAReport) {
  BpfPrograms& programs = all_programs();
  const std::vector<FeatureReport>& reports = programs.reports();
  ASSERT_EQ(reports.size(), 8U);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    EXPECT_EQ(reports[i].feature, feature_at(i));
    EXPECT_FALSE(reports[i].evidence.empty()) << to_string(reports[i].feature);
  }
  // Every supported kernel permits this to root.
  for (const Feature feature : {Feature::bpf, Feature::bpf_timer, Feature::bpf_reclaim,
                                Feature::bpf_oom, Feature::bpf_cgroups}) {
    EXPECT_TRUE(programs.in_use(feature)) << describe(reports);
  }
}

TEST_F(BpfProgramsTest, OneFeatureForcedOffTakesNoOtherWithIt) {
  const BpfPrograms& everything = all_programs();
  for (const Feature off :
       {Feature::bpf_timer, Feature::bpf_charge, Feature::bpf_reclaim, Feature::bpf_stall,
        Feature::bpf_oom, Feature::bpf_oom_path, Feature::bpf_cgroups}) {
    const auto programs = load_programs(set_of({off}));
    for (const FeatureReport& report : everything.reports()) {
      const bool expected = report.feature != off && report.state == FeatureState::in_use;
      EXPECT_EQ(programs->in_use(report.feature), expected) << to_string(off) << " off:\n"
                                                            << describe(programs->reports());
    }
    EXPECT_EQ(programs->reports()[static_cast<std::size_t>(off)].state, FeatureState::forced_off);
  }
}

TEST_F(BpfProgramsTest, AllForcedOffStillWorks) {
  const auto programs = load_programs(set_of({Feature::bpf}));
  for (const FeatureReport& report : programs->reports()) {
    EXPECT_EQ(report.state, FeatureState::forced_off);
  }
  EXPECT_EQ(programs->ring_fd(), -1);
  const kernel::BpfWatch node{{}, -1, mib(1)};
  EXPECT_THAT(programs->watch({&node, 1}).value(), testing::ElementsAre(0U));
  EXPECT_FALSE(programs->node_usage().ok());
  EXPECT_FALSE(programs->stall({}).ok());
}

TEST_F(BpfProgramsTest, NodeUsageMatchesVmstatAndMeminfo) {
  BpfPrograms& programs = all_programs();
  const auto& timer = programs.reports()[static_cast<std::size_t>(Feature::bpf_timer)];
  EXPECT_THAT(timer.evidence, testing::HasSubstr(programs.shows_available()
                                                     ? "it watches MemAvailable"
                                                     : "MemAvailable is polled: it differs by"));
  // Other processes allocate meanwhile: each figure must lie between the readings of the file
  // before and after, give or take the per-CPU deltas between reads.
  constexpr std::int64_t kSlack = 4 << 20;
  const auto between = [](std::int64_t before, std::uint64_t value, std::int64_t after) {
    const auto figure = static_cast<std::int64_t>(value);
    return figure >= std::min(before, after) - kSlack && figure <= std::max(before, after) + kSlack;
  };
  int agreed = 0;
  for (int i = 0; i < 50; ++i) {
    const NodeFiles before;
    const Result<abi_node_usage> usage = programs.node_usage();
    const NodeFiles after;
    ASSERT_TRUE(usage.ok()) << usage.error().text();
    if (between(before.file, usage->file, after.file) &&
        between(before.anon, usage->anon, after.anon) &&
        between(before.inactive_file, usage->inactive_file, after.inactive_file) &&
        between(before.free, usage->free, after.free) &&
        (!programs.shows_available() ||
         between(before.available, usage->available, after.available))) {
      ++agreed;
    }
  }
  // On a busy machine a value may change and return between two reads, but not often.
  EXPECT_GE(agreed, 40);
}

TEST_F(BpfProgramsTest, CrossingFiresOnceAndAgainWhenArmedAgain) {
  BpfPrograms& programs = without_charge();
  ScratchCgroup scratch;
  const std::string path = scratch.child("grows");
  const OpenCgroup group(scratch.directory(path));
  Hog hog(scratch, path, mib(16));
  BpfEvents events(programs);

  const kernel::BpfWatch watch = group.watch(mib(48));
  ASSERT_THAT(programs.watch({&watch, 1}).value(), testing::IsEmpty());
  events.drain();
  EXPECT_EQ(events.count(crossing(group.id())), 0U);

  const MonotonicTime before = SystemClock().now();
  hog.grow(mib(64));
  const abi_event* crossed = events.wait(crossing(group.id()));
  ASSERT_NE(crossed, nullptr);
  EXPECT_EQ(crossed->kind, ABI_EVENT_usage_timer);
  EXPECT_EQ(crossed->line, static_cast<__u64>(mib(48).count));
  EXPECT_GE(crossed->usage, crossed->line);
  EXPECT_GE(crossed->at_ns, static_cast<__u64>(to_ns(before)));
  EXPECT_LE(crossed->at_ns, static_cast<__u64>(to_ns(SystemClock().now())));
  ASSERT_TRUE(hog.wait_grown());
  events.drain();
  EXPECT_EQ(events.count(crossing(group.id())), 1U);

  // The line has stayed met: armed again, it fires once more.
  events.forget();
  ASSERT_TRUE(programs.watch({&watch, 1}).ok());
  ASSERT_NE(events.wait(crossing(group.id())), nullptr);
  // No line is armed, so the timer has stopped. Otherwise one more event would be here when another
  // subject's crossing arrives.
  const kernel::BpfWatch both[] = {watch, group.watch(mib(8))};
  ASSERT_TRUE(programs.watch({&both[1], 1}).ok());
  ASSERT_NE(events.wait([&](const abi_event& event) {
    return event.kind == ABI_EVENT_usage_timer && event.line == static_cast<__u64>(mib(8).count);
  }),
            nullptr);
  EXPECT_EQ(events.count(crossing(group.id())), 2U);
}

TEST_F(BpfProgramsTest, NodeLineFiresWhenTheNodesWorkingSetReachesIt) {
  BpfPrograms& programs = all_programs();
  ScratchCgroup scratch;
  const std::string path = scratch.child("grows");
  Hog hog(scratch, path, mib(1));
  BpfEvents events(programs);
  const abi_node_usage usage = programs.node_usage().value();
  const Bytes line{static_cast<std::int64_t>(abi_node_working_set(&usage)) + mib(64).count};
  const kernel::BpfWatch node{{}, -1, line};
  ASSERT_THAT(programs.watch({&node, 1}).value(), testing::IsEmpty());
  hog.grow(mib(256));
  const abi_event* crossed = events.wait(of(ABI_EVENT_usage_timer, {}));
  ASSERT_NE(crossed, nullptr);
  EXPECT_EQ(crossed->line, static_cast<__u64>(line.count));
  EXPECT_GE(crossed->usage, crossed->line);
  ASSERT_TRUE(hog.wait_grown());
}

// Leaves this process one free descriptor while this object exists.
class OneFreeDescriptor {
 public:
  OneFreeDescriptor() {
    const UniqueFd lowest(::dup(STDERR_FILENO));
    if (!lowest || ::getrlimit(RLIMIT_NOFILE, &before_) != 0) throw std::runtime_error("rlimit");
    const rlimit few{static_cast<rlim_t>(lowest.get()) + 1, before_.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &few) != 0) throw std::runtime_error("setrlimit");
  }
  OneFreeDescriptor(const OneFreeDescriptor&) = delete;
  OneFreeDescriptor& operator=(const OneFreeDescriptor&) = delete;
  ~OneFreeDescriptor() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(BpfProgramsTest, AFailedLookupKeepsTheTimersOfOtherSubjects) {
  BpfPrograms& programs = without_charge();
  ScratchCgroup scratch;
  const std::string path = scratch.child("later");
  const OpenCgroup group(scratch.directory(path));
  const Hog hog(scratch, path, mib(16));
  BpfEvents events(programs);
  // The lookup needs two descriptors: a link and the walk. The node's line is met already.
  const kernel::BpfWatch both[] = {group.watch(mib(8)), {{}, -1, mib(1)}};
  std::optional<Result<std::vector<std::size_t>>> unresolved;
  bool node_reported = false;
  {
    const OneFreeDescriptor scarce;
    unresolved = programs.watch(both);
    node_reported = events.wait(of(ABI_EVENT_usage_timer, {})) != nullptr;
  }
  ASSERT_TRUE(unresolved->ok()) << unresolved->error().text();
  EXPECT_THAT(unresolved->value(), testing::ElementsAre(0U));
  EXPECT_TRUE(node_reported);
  EXPECT_EQ(events.count(crossing(group.id())), 0U);
  EXPECT_THAT(programs.watch(both).value(), testing::IsEmpty());
  EXPECT_NE(events.wait(crossing(group.id())), nullptr);
}

TEST_F(BpfProgramsTest, FarFromEveryLineTheTimerHardlyRuns) {
  BpfPrograms& programs = without_charge();
  ScratchCgroup scratch;
  const OpenCgroup group(scratch.directory(scratch.child("quiet")));
  const kernel::BpfWatch watch = group.watch(gib(4096));
  ASSERT_TRUE(programs.watch({&watch, 1}).ok());
  // The longest interval of the timer is 1 s (CHECK_NS_MAX of bpf/usage.bpf.c), so two intervals
  // lie between the first and the last of three ticks, even if timer or test are late. The first
  // may come from arming.
  BpfEvents events(programs);
  const MonotonicTime begin = SystemClock().now();
  const __u64 before = programs.counters()->ticks;
  const auto ticks = [&] { return programs.counters()->ticks - before; };
  while (ticks() < 3 && SystemClock().now() - begin < kPatience) {
    EXPECT_EQ(events.wait(crossing(group.id()), std::chrono::milliseconds(100)), nullptr);
  }
  EXPECT_GE(ticks(), 3U) << "it does run";
  EXPECT_GE(SystemClock().now() - begin, std::chrono::seconds(2));
}

TEST_F(BpfProgramsTest, ManyWatchesEachFireTheirOwn) {
  BpfPrograms& programs = without_charge();
  ScratchCgroup scratch;
  std::vector<OpenCgroup> groups;
  std::vector<kernel::BpfWatch> watches;
  for (int i = 0; i < 256; ++i) {
    groups.emplace_back(scratch.directory(scratch.child("g" + std::to_string(i))));
    watches.push_back(groups.back().watch(mib(8)));
  }
  ASSERT_THAT(programs.watch(watches).value(), testing::IsEmpty());
  BpfEvents events(programs);
  const Hog first(scratch, scratch.path() + "/g0", mib(16));
  const Hog last(scratch, scratch.path() + "/g255", mib(16));
  EXPECT_NE(events.wait(crossing(groups.front().id())), nullptr);
  EXPECT_NE(events.wait(crossing(groups.back().id())), nullptr);
  EXPECT_EQ(
      events.count([](const abi_event& event) { return event.kind == ABI_EVENT_usage_timer; }), 2U);
}

TEST_F(BpfProgramsTest, ReportsARemovedCgroup) {
  BpfPrograms& programs = all_programs();
  ScratchCgroup scratch;
  const std::string path = scratch.child("goes");
  const OpenCgroup group(scratch.directory(path));
  const kernel::BpfWatch watch = group.watch(mib(8));
  ASSERT_THAT(programs.watch({&watch, 1}).value(), testing::IsEmpty());
  BpfEvents events(programs);
  events.drain();
  scratch.remove_child(path);
  const abi_event* gone =
      events.wait([](const abi_event& event) { return event.kind == ABI_EVENT_workload_change; });
  ASSERT_NE(gone, nullptr);
  // A cgroup that was removed before it is watched is reported by its index.
  BpfPrograms& other = without_charge();
  EXPECT_THAT(other.watch({&watch, 1}).value(), testing::ElementsAre(0U));
}

TEST_F(BpfProgramsTest, CountsAndReportsReclaimOfAWatchedCgroup) {
  BpfPrograms& programs = all_programs();
  ScratchCgroup scratch;
  const std::string path = scratch.child("reads");
  scratch.limit(path, mib(24));
  const OpenCgroup group(scratch.directory(path));
  const kernel::BpfWatch watch = group.watch(gib(1));
  ASSERT_THAT(programs.watch({&watch, 1}).value(), testing::IsEmpty());
  BpfEvents events(programs);

  const CacheFile file(mib(96));
  const auto limit_hits = [&] {
    return mounts().v1 ? std::stoull(scratch.read(path, "memory.failcnt"))
                       : keyed(scratch.read(path, "memory.events"), "max").value();
  };
  const std::uint64_t hits_before = limit_hits();
  const std::uint64_t psi_before = psi_some_us(scratch, path);
  const std::uint64_t node_before = programs.stall({})->sums[ABI_STALL_MEMCG_RECLAIM].count;
  const cpu_set_t one = first_permitted_cpu();
  const MonotonicTime begin = SystemClock().now();
  {
    Child reader([&] {
      scratch.add(path, ::getpid());
      // PSI weighs each CPU's stall by its busy time, so only on one CPU its total is the plain
      // sum. The process pins itself inside the cgroup, because before 6.2 the v2 cpuset controller
      // resets the mask on entry.
      if (::sched_setaffinity(0, sizeof(one), &one) != 0) return 3;
      return file.read_through(6);
    });
    ASSERT_TRUE(reader.wait_exit(std::chrono::seconds(120)));
    ASSERT_EQ(reader.reap(), 0);
  }
  const Duration elapsed = SystemClock().now() - begin;
  const std::uint64_t hits = limit_hits() - hits_before;
  const std::uint64_t psi_us = psi_some_us(scratch, path) - psi_before;
  const abi_stall stall = programs.stall(group.id()).value();
  const abi_stall_sum& reclaim = stall.sums[ABI_STALL_MEMCG_RECLAIM];
  ASSERT_GT(reclaim.count, 0U);
  EXPECT_GT(reclaim.pages, 0U);
  // v1 counts failed charges, one or more before each reclaim; v2 counts exactly the reclaims.
  if (mounts().v1) {
    EXPECT_LE(reclaim.count, hits);
  } else {
    EXPECT_EQ(reclaim.count, hits);
  }
  // Reclaim lies within PSI's stall and is nearly all of it: one task, no disk. PSI sums per-CPU
  // clocks, rounded to microseconds at each change.
  const std::uint64_t reclaim_us = reclaim.ns / 1000;
  RecordProperty("reclaim_us", std::to_string(reclaim_us));
  RecordProperty("psi_us", std::to_string(psi_us));
  std::cout << "memcg reclaims " << reclaim.count << " of limit hits " << hits << ", stalled "
            << reclaim_us << " us by BPF reclaim, " << stall.sums[ABI_STALL_PSI].ns / 1000
            << " us by BPF PSI, " << psi_us << " us by memory.pressure\n";
  EXPECT_LE(reclaim_us, psi_us + psi_us / 20 + 1000);
  EXPECT_GE(reclaim_us, psi_us / 2);
  EXPECT_NE(events.wait(of(ABI_EVENT_reclaim, group.id())), nullptr);
  // At most one report in 20 ms (QUIET_NS of bpf/lib/watches.bpf.h). A slow reader, such as an
  // emulated guest, gets fewer.
  EXPECT_LE(events.count(of(ABI_EVENT_reclaim, group.id())),
            static_cast<std::size_t>(elapsed / std::chrono::milliseconds(20)) + 1);
  // The sums of the parent and of the node include it.
  const OpenCgroup parent(scratch.directory(scratch.path()));
  EXPECT_EQ(programs.stall(parent.id())->sums[ABI_STALL_MEMCG_RECLAIM].count, reclaim.count);
  EXPECT_GE(programs.stall({})->sums[ABI_STALL_MEMCG_RECLAIM].count, node_before + reclaim.count);
}

// A tenant decides how deep its tree is.
TEST_F(BpfProgramsTest, ADeepTreeDoesNotHideItsReclaim) {
  BpfPrograms& programs = all_programs();
  ScratchCgroup scratch;
  const std::string top = scratch.child("tenant");
  const std::string deep = scratch.child("tenant" + levels(60));
  scratch.limit(top, mib(24));
  const OpenCgroup group(scratch.directory(top));
  const kernel::BpfWatch watch = group.watch(gib(1));
  ASSERT_THAT(programs.watch({&watch, 1}).value(), testing::IsEmpty());
  const CacheFile file(mib(64));
  Child reader([&] {
    scratch.add(deep, ::getpid());
    return file.read_through(1);
  });
  ASSERT_TRUE(reader.wait_exit(std::chrono::seconds(60)));
  ASSERT_EQ(reader.reap(), 0);
  BpfEvents events(programs);
  EXPECT_NE(events.wait(of(ABI_EVENT_reclaim, group.id())), nullptr);
  EXPECT_GT(programs.stall(group.id())->sums[ABI_STALL_MEMCG_RECLAIM].count, 0U);
}

TEST_F(BpfProgramsTest, AWatchedCgroupDeepInATreeIsResolved) {
  BpfPrograms& programs = without_charge();
  ScratchCgroup scratch;
  const std::string deep = scratch.child("tenant" + levels(60));
  const OpenCgroup group(scratch.directory(deep));
  const OpenCgroup top(scratch.directory(scratch.path() + "/tenant"));
  const kernel::BpfWatch watch = group.watch(mib(8));
  ASSERT_THAT(programs.watch({&watch, 1}).value(), testing::IsEmpty());
  BpfEvents events(programs);
  scratch.limit(scratch.path() + "/tenant", mib(24));
  const std::string beside = scratch.child("tenant/reader");  // v2 has processes in leaves only
  const CacheFile file(mib(64));
  Child reader([&] {
    scratch.add(beside, ::getpid());
    return file.read_through(CacheFile::kUntilEnded);  // the programs find the path meanwhile
  });
  EXPECT_NE(events.wait(of(ABI_EVENT_reclaim, top.id())), nullptr)
      << "the reclaim of an ancestor concerns the watched cgroup";
  reader.reap();
  const Hog hog(scratch, deep, mib(16));
  EXPECT_NE(events.wait(crossing(group.id())), nullptr);
}

TEST_F(BpfProgramsTest, IgnoresReclaimElsewhere) {
  BpfPrograms& programs = all_programs();
  ScratchCgroup scratch;
  const std::string busy = scratch.child("busy");
  const OpenCgroup bystander(scratch.directory(scratch.child("bystander")));
  const OpenCgroup busy_group(scratch.directory(busy));
  scratch.limit(busy, mib(24));
  const kernel::BpfWatch watch = bystander.watch(gib(1));
  ASSERT_THAT(programs.watch({&watch, 1}).value(), testing::IsEmpty());
  const CacheFile file(mib(64));
  Child reader([&] {
    scratch.add(busy, ::getpid());
    return file.read_through(1);
  });
  ASSERT_TRUE(reader.wait_exit(std::chrono::seconds(60)));
  BpfEvents events(programs);
  events.drain();
  EXPECT_GT(programs.stall(busy_group.id())->sums[ABI_STALL_MEMCG_RECLAIM].count, 0U);
  EXPECT_EQ(events.count(of(ABI_EVENT_reclaim, bystander.id())), 0U);
  EXPECT_EQ(events.count(of(ABI_EVENT_reclaim, busy_group.id())), 0U);
}

TEST_F(BpfProgramsTest, AVictimOfTheKernelIsNamed) {
  BpfPrograms& programs = all_programs();
  ScratchCgroup scratch;
  const std::string path = scratch.child("dies");
  scratch.limit(path, mib(32));
  const OpenCgroup group(scratch.directory(path));
  BpfEvents events(programs);
  Hog hog(scratch, path, mib(8));
  hog.grow(mib(64));
  const abi_event* killed = events.wait(of(ABI_EVENT_oom_kill, group.id()));
  ASSERT_NE(killed, nullptr);
  EXPECT_EQ(killed->tgid, hog.pid());
  EXPECT_EQ(killed->uid, ::getuid());
  EXPECT_NE(std::string(killed->comm), "");
  EXPECT_TRUE(hog.child().wait_exit());
  EXPECT_EQ(events.count(of(ABI_EVENT_oom_kill, group.id())), scratch.oom_kills(path));
  if (programs.in_use(Feature::bpf_oom_path)) {
    EXPECT_NE(events.wait(of(ABI_EVENT_oom_last_call, group.id())), nullptr);
  }
}

TEST_F(BpfProgramsTest, CountsEventsThatTheRingCannotHold) {
  BpfPrograms& programs = all_programs();
  ScratchCgroup scratch;
  const std::string path = scratch.child("full");
  const OpenCgroup group(scratch.directory(path));
  const Hog hog(scratch, path, mib(8));
  constexpr int kWrites = 6000;
  const abi_counters before = programs.counters().value();
  const std::string own = read_text("/proc/self/oom_score_adj");
  const UniqueFd file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  for (int i = 0; i < kWrites; ++i) {
    ASSERT_EQ(::pwrite(file.get(), own.data(), own.size(), 0), static_cast<ssize_t>(own.size()));
  }
  const abi_counters after = programs.counters().value();
  const __u64 emitted =
      after.emitted[ABI_EVENT_oom_score_adj] - before.emitted[ABI_EVENT_oom_score_adj];
  const __u64 dropped =
      after.dropped[ABI_EVENT_oom_score_adj] - before.dropped[ABI_EVENT_oom_score_adj];
  EXPECT_GT(dropped, 0U);
  EXPECT_GE(emitted + dropped, static_cast<__u64>(kWrites));
  // A crossing still finds room and wakes the reader, and every emitted event can be read.
  const kernel::BpfWatch watch = group.watch(mib(1));
  ASSERT_THAT(programs.watch({&watch, 1}).value(), testing::IsEmpty());
  pollfd ring{programs.ring_fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&ring, 1, 20000), 1);
  BpfEvents events(programs);
  ASSERT_NE(events.wait(crossing(group.id())), nullptr);
  EXPECT_GE(
      events.count([](const abi_event& event) { return event.kind == ABI_EVENT_oom_score_adj; }),
      emitted);
}

// Ids of the BPF programs of which this process holds descriptors.
std::set<__u32> own_program_ids() {
  std::set<__u32> ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("prog_id:")) ids.insert(static_cast<__u32>(std::stoul(line.substr(8))));
    }
  }
  return ids;
}

TEST(BpfProgramsEnd, NothingOutlivesTheProcess) {
  // A child process that ends by SIGKILL, so that none of our code runs.
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const UniqueFd reading(pipe[0]);
  UniqueFd writing(pipe[1]);
  std::set<__u32> ids;
  {
    Child agent([&] {
      const auto programs = load_programs();
      const kernel::BpfWatch node{{}, -1, gib(1 << 20)};
      if (!programs->watch({&node, 1}).ok()) return 1;
      for (const __u32 id : own_program_ids()) {
        if (::write(writing.get(), &id, sizeof(id)) != sizeof(id)) return 1;
      }
      writing.reset();
      return ::pause();
    });
    writing.reset();
    for (__u32 id = 0; ::read(reading.get(), &id, sizeof(id)) == sizeof(id);) ids.insert(id);
    ASSERT_GE(ids.size(), 10U);
    for (const __u32 id : ids) EXPECT_TRUE(UniqueFd(bpf_prog_get_fd_by_id(id)).valid());
  }  // ~Child kills it
  // A kernel worker frees them a moment later; there is no event for that.
  const MonotonicTime end = SystemClock().now() + kPatience;
  const auto alive = [&] {
    return std::ranges::any_of(
        ids, [](__u32 id) { return UniqueFd(bpf_prog_get_fd_by_id(id)).valid(); });
  };
  while (alive() && SystemClock().now() < end) {
  }
  EXPECT_FALSE(alive());
}

}  // namespace
}  // namespace forestall::test
