// SPDX-License-Identifier: Apache-2.0
// The tracer's programs on a real kernel: their reports against the kernel's files, with and
// without filters, of cgroups removed before the read, and with a ring that is too small.
#include "kernel/trace_programs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <vector>

#include "base/unique_fd.h"
#include "integration/bpf_events.h"
#include "kernel/reclaim_counts.h"
#include "sources/cgroup_names.h"
#include "support/child.h"
#include "support/long_path_group.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"
#include "support/trace_kind_name.h"
#include "trace/trace_events.h"
#include "trace/trace_summary.h"

namespace forestall::test::trace_test {
namespace {

using kernel::TracePrograms;
using kernel::TraceSelection;

constexpr Bytes kLimit = mib(24);

const kernel::CgroupTree& tree() {
  static const kernel::CgroupTree kTree = [] {
    auto found = kernel::CgroupTree::discover();
    if (!found) throw std::runtime_error(found.error().text());
    return std::move(found).value();
  }();
  return kTree;
}

// All records of one TracePrograms, in the order of arrival.
class Records {
 public:
  explicit Records(TracePrograms& programs) : programs_(programs) {}

  void drain() {
    programs_.drain([this](const abi_trace_event& record) {
      if (record.kind == ABI_TRACE_path) {
        paths_[record.cgroup] = reinterpret_cast<const abi_trace_path&>(record).path;
      }
      if (record.kind == ABI_TRACE_oom_kill) {
        kills_.push_back(reinterpret_cast<const abi_trace_oom_kill&>(record));
      }
      all_.push_back(record);
    });
  }
  template <typename Match>
  bool wait(Match match, Duration patience = kPatience) {
    const MonotonicTime end = SystemClock().now() + patience;
    for (;;) {
      drain();
      if (std::ranges::any_of(all_, match)) return true;
      const Duration left = end - SystemClock().now();
      if (left <= Duration::zero()) return false;
      programs_.about_to_wait();
      pollfd ring{programs_.ring_fd(), POLLIN, 0};
      ::poll(&ring, 1, static_cast<int>(left / std::chrono::milliseconds(1)) + 1);
    }
  }
  [[nodiscard]] abi_trace_sum of(abi_trace_kind kind, CgroupId cgroup) const {
    abi_trace_sum sum{};
    for (const abi_trace_event& each : all_) {
      if (each.kind != kind || each.cgroup != cgroup.inode || each.flags != 0) continue;
      ++sum.count;
      sum.ns += each.length_ns;
      sum.scanned += each.scanned;
      sum.taken += each.taken;
      sum.reclaimed += each.reclaimed;
    }
    return sum;
  }
  [[nodiscard]] const std::vector<abi_trace_event>& all() const { return all_; }
  [[nodiscard]] const std::map<__u64, std::string>& paths() const { return paths_; }
  [[nodiscard]] const std::vector<abi_trace_oom_kill>& kills() const { return kills_; }

 private:
  TracePrograms& programs_;
  std::vector<abi_trace_event> all_;
  std::map<__u64, std::string> paths_;
  std::vector<abi_trace_oom_kill> kills_;
};

std::unique_ptr<TracePrograms> load(const TraceSelection& selection) {
  auto programs = TracePrograms::load(selection, tree(), {});
  if (!programs) throw std::runtime_error(programs.error().text());
  return std::move(programs).value();
}

// A cgroup whose process reads more of a file than fits.
class Churn {
 public:
  explicit Churn(const std::string& name = "churn") : path_(scratch_.child(name)) {
    scratch_.limit(path_, kLimit);
  }
  void run(int times = 4) {
    Child reader([&] {
      scratch_.add(path_, ::getpid());
      return cache_.read_through(times);
    });
    ASSERT_TRUE(reader.wait_exit(std::chrono::seconds(100)));
    ASSERT_EQ(reader.reap(), 0);
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] CgroupId id() const { return OpenCgroup(scratch_.directory(path_)).id(); }
  [[nodiscard]] ScratchCgroup& scratch() { return scratch_; }

 private:
  ScratchCgroup scratch_;
  std::string path_;
  CacheFile cache_{mib(64)};
};

kernel::ReclaimCounts vmstat() {
  return kernel::parse_reclaim_counts(read_text("/proc/vmstat"));
}

TEST(Trace, RecordsEveryTracepointOfItsKinds) {
  const auto programs = load({});
  for (const kernel::TraceKindReport& report : programs->reports()) {
    if (report.kind == ABI_TRACE_stall) continue;  // needs fentry
    EXPECT_EQ(report.state, FeatureState::in_use)
        << test::trace_kind_name(report.kind) << ": " << report.evidence;
  }
}

// Both the tracer and the kernel's counters see every reclaim of the machine. The kernel's are read
// before and after, because reclaims may run at the time of a reading.
TEST(Trace, TotalsMatchVmstat) {
  Churn churn;
  const auto before = vmstat();
  const auto programs = load({});
  const auto begun = vmstat();
  churn.run();
  const auto ended = vmstat();
  programs->stop();
  const auto after = vmstat();
  const auto totals = programs->totals();
  ASSERT_TRUE(totals.ok());
  sources::CgroupNames names(tree());
  const trace::TraceEvents counting(names, trace::multi_generational_lru());
  std::uint64_t scanned = 0;
  std::uint64_t reclaimed = 0;
  for (const abi_trace_kind kind :
       {ABI_TRACE_memcg_reclaim, ABI_TRACE_direct_reclaim, ABI_TRACE_kswapd}) {
    const abi_trace_total& total = totals->kinds[kind];
    scanned += counting.scanned(total.scanned, total.taken);
    reclaimed += total.reclaimed;
    std::cout << "@metric trace_" << test::trace_kind_name(kind) << " " << total.count << "\n";
  }
  ASSERT_TRUE(begun.scanned && ended.scanned && begun.reclaimed && ended.reclaimed);
  const std::uint64_t least_scanned = *ended.scanned - *begun.scanned;
  const std::uint64_t least_reclaimed = *ended.reclaimed - *begun.reclaimed;
  const std::uint64_t most_scanned = *after.scanned - *before.scanned;
  const std::uint64_t most_reclaimed = *after.reclaimed - *before.reclaimed;
  std::cout << fmt::format("@metric trace_scanned {} of {}..{} pages\n", scanned, least_scanned,
                           most_scanned)
            << fmt::format("@metric trace_reclaimed {} of {}..{} pages\n", reclaimed,
                           least_reclaimed, most_reclaimed);
  ASSERT_GT(least_scanned, 10'000U);
  // 1 %, and one reclaim under way at either end.
  const auto near = [](std::uint64_t value, std::uint64_t least, std::uint64_t most) {
    const std::uint64_t slack = most / 100 + 2048;
    return value + slack >= least && value <= most + slack;
  };
  EXPECT_TRUE(near(scanned, least_scanned, most_scanned));
  EXPECT_TRUE(near(reclaimed, least_reclaimed, most_reclaimed));
}

TEST(Trace, AttributesEveryRecordAndCountsEveryLoss) {
  Churn churn;
  const auto programs = load({});
  Records records(*programs);
  churn.run();
  programs->stop();
  records.drain();
  const auto totals = programs->totals();
  ASSERT_TRUE(totals.ok());
  const abi_trace_total& total = totals->kinds[ABI_TRACE_memcg_reclaim];
  const abi_trace_sum own = records.of(ABI_TRACE_memcg_reclaim, churn.id());
  ASSERT_GT(own.count, 100U);
  EXPECT_GT(own.reclaimed, 10'000U);
  EXPECT_GE(own.scanned, own.taken);
  EXPECT_GE(own.taken, own.reclaimed / 2);
  EXPECT_EQ(total.count, total.reported + total.dropped + total.passed);
  std::uint64_t reported = 0;
  for (const abi_trace_event& each : records.all()) {
    if (each.kind != ABI_TRACE_memcg_reclaim) continue;
    ++reported;
    EXPECT_GT(each.length_ns, 0U);
    EXPECT_NE(each.tgid, 0);
    if (each.cgroup == churn.id().inode) {
      EXPECT_EQ(each.subject, churn.id().inode);
    }
  }
  EXPECT_EQ(reported, total.reported);
  EXPECT_EQ(total.dropped, 0U);
}

TEST(Trace, SumsByCgroupMatchTheRecords) {
  Churn churn;
  TraceSelection selection;
  selection.sums = true;
  const auto programs = load(selection);
  Records records(*programs);
  churn.run();
  programs->stop();
  records.drain();
  const auto sums = programs->sums();
  ASSERT_TRUE(sums.ok());
  const auto found = std::ranges::find_if(*sums, [&](const kernel::TraceSum& each) {
    return each.cgroup == churn.id() && each.kind == ABI_TRACE_memcg_reclaim;
  });
  ASSERT_NE(found, sums->end());
  const abi_trace_sum own = records.of(ABI_TRACE_memcg_reclaim, churn.id());
  EXPECT_EQ(found->sum.count, own.count);
  EXPECT_EQ(found->sum.ns, own.ns);
  EXPECT_EQ(found->sum.reclaimed, own.reclaimed);
  std::uint64_t in_buckets = 0;
  for (const __u32 bucket : found->sum.buckets) in_buckets += bucket;
  EXPECT_EQ(in_buckets, own.count);
}

// The programs have room for a fixed number of cgroups, and a busy node creates and removes many.
TEST(Trace, ReportsRemovedCgroupsOnceMoreAndFreesTheirEntries) {
  Churn gone;
  Churn stays;
  TraceSelection selection;
  selection.sums = true;
  const auto programs = load(selection);
  Records records(*programs);
  gone.run(1);
  stays.run(1);
  const auto sum_of = [](const auto& sums, CgroupId id) {
    EXPECT_TRUE(sums.ok());
    const auto found = std::ranges::find_if(*sums, [&](const kernel::TraceSum& each) {
      return each.cgroup == id && each.kind == ABI_TRACE_memcg_reclaim;
    });
    return found == sums->end() ? kernel::TraceSum() : *found;
  };
  const auto taken = programs->sums([&](CgroupId each) { return each == gone.id(); });
  EXPECT_TRUE(sum_of(taken, gone.id()).last);
  EXPECT_GT(sum_of(taken, gone.id()).sum.count, 0U);
  EXPECT_FALSE(sum_of(taken, stays.id()).last);
  EXPECT_EQ(sum_of(programs->sums(), gone.id()).sum.count, 0U) << "it was taken out";
  EXPECT_GE(sum_of(programs->sums(), stays.id()).sum.count, sum_of(taken, stays.id()).sum.count);
  gone.run(1);
  programs->stop();
  records.drain();
  EXPECT_EQ(sum_of(taken, gone.id()).sum.count + sum_of(programs->sums(), gone.id()).sum.count,
            records.of(ABI_TRACE_memcg_reclaim, gone.id()).count)
      << "each is counted once";
}

TEST(TraceSummary, ARemovedEntryStartsFromZero) {
  sources::CgroupNames names(tree());
  const trace::TraceEvents events(names, false);
  trace::TraceSummary summary(names, events, 10);
  const auto reported = [&](std::uint64_t count, bool last) {
    kernel::TraceSum sum{{std::uint64_t{1} << 62}, ABI_TRACE_memcg_reclaim, {}, last};
    sum.sum.count = count;
    const v1::SummaryEvent window =
        summary.since_last({sum}, {}, std::chrono::seconds(1), SystemClock().now());
    return window.sums_size() == 0 ? 0 : window.sums(0).count();
  };
  EXPECT_EQ(reported(5, false), 5U);
  EXPECT_EQ(reported(7, true), 2U);
  EXPECT_EQ(reported(3, false), 3U);
}

TEST(Trace, ReportsOnlyRequestedCgroups) {
  Churn wanted;
  Churn other;
  TraceSelection selection;
  selection.filters = true;
  const auto programs = load(selection);
  // Includes the cgroups below it.
  ASSERT_TRUE(programs->include_cgroup(
      OpenCgroup(wanted.scratch().directory(wanted.scratch().path())).id()));
  Records records(*programs);
  wanted.run(2);
  other.run(2);
  programs->stop();
  records.drain();
  EXPECT_GT(records.of(ABI_TRACE_memcg_reclaim, wanted.id()).count, 0U);
  EXPECT_EQ(records.of(ABI_TRACE_memcg_reclaim, other.id()).count, 0U);
  const auto totals = programs->totals();
  ASSERT_TRUE(totals.ok());
  EXPECT_GT(totals->kinds[ABI_TRACE_memcg_reclaim].passed, 0U) << "summed all the same";
}

TEST(Trace, ReportsOnlyLongEvents) {
  Churn churn;
  TraceSelection selection;
  selection.shortest = std::chrono::microseconds(200);
  const auto programs = load(selection);
  Records records(*programs);
  churn.run(2);
  programs->stop();
  records.drain();
  for (const abi_trace_event& each : records.all()) {
    if (each.kind < ABI_TRACE_SPANS) {
      EXPECT_GE(each.length_ns, 200'000U);
    }
  }
  const auto totals = programs->totals();
  ASSERT_TRUE(totals.ok());
  const abi_trace_total& total = totals->kinds[ABI_TRACE_memcg_reclaim];
  EXPECT_GT(total.count, 0U);
  EXPECT_EQ(total.count, total.reported + total.dropped + total.passed);
}

TEST(Trace, BeginsComeBeforeTheirEnds) {
  Churn churn;
  TraceSelection selection;
  selection.reports_begins = true;
  const auto programs = load(selection);
  Records records(*programs);
  churn.run(1);
  programs->stop();
  records.drain();
  std::map<__s32, __u64> open;
  std::size_t pairs = 0;
  for (const abi_trace_event& each : records.all()) {
    if (each.kind != ABI_TRACE_memcg_reclaim) continue;
    if ((each.flags & ABI_TRACE_BEGIN) != 0) {
      open[each.pid] = each.at_ns;
    } else if (open.contains(each.pid)) {
      EXPECT_NEAR(static_cast<double>(each.at_ns - each.length_ns),
                  static_cast<double>(open[each.pid]), 1000.0);
      ++pairs;
    }
  }
  EXPECT_GT(pairs, 10U);
}

TEST(Trace, ASmallRingCountsItsDrops) {
  Churn churn;
  TraceSelection selection;
  selection.ring_bytes = 4096;
  selection.reports_begins = true;
  const auto programs = load(selection);
  churn.run(2);
  programs->stop();
  Records records(*programs);
  records.drain();
  const auto totals = programs->totals();
  ASSERT_TRUE(totals.ok());
  std::uint64_t reported = 0;
  std::uint64_t dropped = 0;
  for (const abi_trace_total& each : totals->kinds) {
    reported += each.reported;
    dropped += each.dropped;
  }
  EXPECT_GT(dropped, 0U);
  EXPECT_LE(reported, records.all().size()) << "begins are not counted as printed";
  EXPECT_LE(records.all().size(), 4096 / sizeof(abi_trace_event));
}

TEST(Trace, ARemovedCgroupKeepsItsName) {
  const auto programs = load({});
  Records records(*programs);
  std::string path;
  CgroupId id;
  {
    Churn brief("brief");
    path = brief.path();
    id = brief.id();
    brief.run(1);
  }
  programs->stop();
  records.drain();
  EXPECT_GT(records.of(ABI_TRACE_memcg_reclaim, id).count, 0U);
  ASSERT_TRUE(records.paths().contains(id.inode));
  EXPECT_EQ(records.paths().at(id.inode), path);
  EXPECT_TRUE(std::ranges::any_of(records.all(), [&](const abi_trace_event& each) {
    return each.kind == ABI_TRACE_removed && each.cgroup == id.inode;
  }));
}

TEST(Trace, AnOomKillNamesItsVictim) {
  ScratchCgroup scratch;
  const std::string path = scratch.child("victim");
  scratch.limit(path, mib(32));
  const auto programs = load({});
  Records records(*programs);
  Hog hog(scratch, path, mib(8));
  hog.grow(mib(64));
  ASSERT_TRUE(records.wait([&](const abi_trace_event& each) {
    return each.kind == ABI_TRACE_oom_kill && each.tgid == hog.pid();
  }));
  const auto kill = std::ranges::find_if(records.kills(), [&](const abi_trace_oom_kill& each) {
    return each.event.tgid == hog.pid();
  });
  EXPECT_EQ(kill->event.cgroup, OpenCgroup(scratch.directory(path)).id().inode);
  EXPECT_GT(kill->anon_pages, mib(24).count / 4096);
  EXPECT_EQ(kill->killer_tgid, hog.pid());
}

// Edge-triggered epoll reports only wake-ups; poll() would check the state itself.
TEST(Trace, AReaderIsWokenIfItWaitsAndNotOtherwise) {
  Churn churn;
  const auto programs = load({});
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  ASSERT_EQ(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, programs->ring_fd(), &event), 0);
  (void)::epoll_wait(epoll.get(), &event, 1, 0);  // what was there already
  churn.run(1);
  EXPECT_EQ(::epoll_wait(epoll.get(), &event, 1, 0), 0) << "no wake-up";
  programs->about_to_wait();
  churn.run(1);
  EXPECT_EQ(::epoll_wait(epoll.get(), &event, 1, 10'000), 1);
}

// ---- names ----------------------------------------------------------------------------------

// A tenant decides how deep its tree is.
TEST(CgroupNames, ACgroupBelowPathMaxHidesNoOther) {
  ScratchCgroup scratch;
  const std::string path = scratch.child("calm");
  const LongPathGroup deep(scratch.directory(scratch.child("tenant")));
  sources::CgroupNames names(tree());
  ASSERT_TRUE(names.walk(SystemClock().now()));
  EXPECT_EQ(names.find(OpenCgroup(scratch.directory(path)).id()), path);
}

TEST(CgroupNames, FindsExistingAndKeepsRemovedCgroups) {
  sources::CgroupNames names(tree());
  CgroupId id;
  std::string path;
  {
    ScratchCgroup scratch;
    path = scratch.child("a/b");
    id = OpenCgroup(scratch.directory(path)).id();
    ASSERT_TRUE(names.walk(SystemClock().now()));
    EXPECT_EQ(names.find(id), path);
    EXPECT_FALSE(names.is_removed(id));
  }
  ASSERT_TRUE(names.walk(SystemClock().now()));
  EXPECT_EQ(names.find(id), path);
  bool visited = false;
  names.visit([&](CgroupId each, const std::string&) { visited = visited || each == id; });
  EXPECT_FALSE(visited) << "it is not there any more";
  EXPECT_TRUE(names.is_removed(id));
}

TEST(CgroupNames, RetriesUnknownCgroupsOccasionally) {
  sources::CgroupNames names(tree());
  const MonotonicTime now = from_ns(1) + std::chrono::hours(1);
  ASSERT_TRUE(names.walk(now));
  ScratchCgroup scratch;
  const CgroupId id = OpenCgroup(scratch.directory(scratch.path())).id();
  EXPECT_EQ(names.name(id, now), "");
  EXPECT_EQ(names.name(id, now + sources::CgroupNames::kWalkEvery), scratch.path());
  EXPECT_EQ(names.name({}, now), "");
}

TEST(CgroupNames, OldNamesOfRemovedCgroupsGo) {
  sources::CgroupNames names(tree());
  for (std::uint64_t i = 1; i <= sources::CgroupNames::kRemovedMax + 10; ++i) {
    const CgroupId id{std::uint64_t{1} << 62 | i};
    names.put(id, "/x");
    names.remove(id);
  }
  EXPECT_EQ(names.find({std::uint64_t{1} << 62 | 1}), "");
  EXPECT_EQ(names.find({std::uint64_t{1} << 62 | 100}), "/x");
}

}  // namespace
}  // namespace forestall::test::trace_test
