// SPDX-License-Identifier: Apache-2.0
// The pace of the poll source, and that it wakes exactly when the formula requires it.
#include "sources/poll_source.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

#include "support/manual_clock.h"
#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(SleepFor, HeadroomOverRateBetweenOneMillisecondAndTenSeconds) {
  EXPECT_EQ(interval_for(gib(2), gib(2).count), seconds(1));
  EXPECT_EQ(interval_for(mib(512), gib(2).count), milliseconds(250));
  EXPECT_EQ(interval_for(gib(1000), gib(2).count), seconds(10));
  EXPECT_EQ(interval_for({std::int64_t{1} << 62}, 1), seconds(10));
  EXPECT_EQ(interval_for({1}, gib(2).count), milliseconds(1));
  EXPECT_EQ(interval_for({0}, gib(2).count), milliseconds(1));
  EXPECT_EQ(interval_for({-5}, gib(2).count), milliseconds(1));
}

TEST(PossibleFillRate, GrowsWithCpusUpToMemoryBandwidth) {
  EXPECT_EQ(possible_fill_rate(1), gib(2).count);
  EXPECT_EQ(possible_fill_rate(2), gib(4).count);
  EXPECT_EQ(possible_fill_rate(256), gib(16).count);
  EXPECT_EQ(possible_fill_rate(0), gib(2).count);  // "unknown" of hardware_concurrency()
}

class PollWorld : public ::testing::Test {
 protected:
  PollWorld() {
    write_vmstat(100, 50, 10);
    auto tree = kernel::CgroupTree::discover(files_ / "cgroup");
    EXPECT_TRUE(tree) << tree.error().text();
    tree_ = std::move(tree).value();
    auto source = PollSource::create(tree_, files_ / "proc");
    EXPECT_TRUE(source) << source.error().text();
    source_ = std::move(source).value();
  }
  void write_vmstat(int file, int anon, int inactive) {
    files_.write("proc/vmstat", "nr_file_pages " + std::to_string(file) + "\nnr_anon_pages " +
                                    std::to_string(anon) + "\nnr_inactive_file " +
                                    std::to_string(inactive) + "\n");
  }
  // Waits for the timer, then drains.
  std::vector<Wake> next() {
    pollfd ready{source_->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&ready, 1, 15'000), 1);
    clock_.advance(interval());
    std::vector<Wake> wakes;
    source_->drain(clock_.now(), wakes);
    return wakes;
  }
  Duration interval() const { return static_cast<PollSource&>(*source_).interval(); }
  void arm(Line line) {
    const auto notes = source_->arm(std::span(&line, 1), clock_.now());
    ASSERT_TRUE(notes) << notes.error().text();
    ASSERT_TRUE(notes->empty()) << notes->front();
  }
  test::TempTree files_{{"proc/meminfo", "MemTotal: 1000 kB\n"},
                        {"cgroup/cgroup.controllers", "memory\n"},
                        {"cgroup/a/memory.current", "1000\n"},
                        {"cgroup/a/memory.stat", "inactive_file 0\n"}};
  kernel::CgroupTree tree_;
  std::unique_ptr<Source> source_;
  test::ManualClock clock_;
};

TEST_F(PollWorld, NodeWakesWhenTheWorkingSetIsStrictlyAboveTheLine) {
  Line line;
  line.path = "/";
  line.floor_line = Bytes{4096 * 140};
  line.headroom = mib(8);
  arm(line);
  EXPECT_TRUE(next().empty()) << "140 pages are not above 140 pages";
  write_vmstat(100, 51, 10);
  const auto wakes = next();
  ASSERT_EQ(wakes.size(), 1u);
  EXPECT_EQ(wakes[0].source, WakeSource::poll);
  EXPECT_FALSE(wakes[0].cgroup);
  EXPECT_EQ(wakes[0].usage, Bytes{4096 * 141});
  EXPECT_TRUE(source_->take_crossings().empty()) << "the agent reads the node from other files";
}

// Only meminfo shows the kernel's own memory and swap.
TEST_F(PollWorld, UntilOomIsReadFromMeminfo) {
  const auto write_meminfo = [&](int available, int swap_free) {
    files_.write("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: " +
                                     std::to_string(available) + " kB\nSwapTotal: 100 kB\n" +
                                     "SwapFree: " + std::to_string(swap_free) + " kB\n");
  };
  write_meminfo(100, 50);
  Line line;
  line.signal = Signal::memory_until_oom;
  line.path = "/";
  line.floor_line = kib(1100 - 64);
  line.headroom = kib(150 - 64);
  arm(line);
  EXPECT_TRUE(next().empty());
  write_meminfo(40, 24);
  EXPECT_TRUE(next().empty()) << "at the limit nothing is met";
  const MonotonicTime before = clock_.now();
  EXPECT_TRUE(source_->take_crossings().empty());
  write_meminfo(40, 23);
  const auto wakes = next();
  ASSERT_EQ(wakes.size(), 1u);
  EXPECT_FALSE(wakes[0].cgroup);
  EXPECT_EQ(wakes[0].usage, kib(1100 - 63));
  const auto crossings = source_->take_crossings();
  ASSERT_EQ(crossings.size(), 1u);
  EXPECT_EQ(crossings[0].measured, SourceReadings::Measured::not_left);
  EXPECT_EQ(crossings[0].before, (SourceReadings::Reading{before, kib(1100 - 64)}));
}

TEST_F(PollWorld, ReportsAWarningOnceAndBeforeTheLine) {
  Line line;
  line.path = "/";
  line.floor_line = Bytes{4096 * 30'000};
  line.headroom = line.floor_line - Bytes{4096 * 140};
  line.warning = Bytes{4096 * 10'000};
  arm(line);
  write_vmstat(19'000, 1'000, 10);
  EXPECT_TRUE(next().empty()) << "still above it";
  write_vmstat(20'000, 1'000, 10);
  const auto wakes = next();
  ASSERT_EQ(wakes.size(), 1u);
  EXPECT_EQ(wakes[0].usage, Bytes{4096 * 20'990});
  EXPECT_TRUE(next().empty()) << "reported already";
  write_vmstat(30'000, 1'000, 10);
  EXPECT_EQ(next().size(), 1u) << "the line itself";
}

TEST_F(PollWorld, HoveringAboveAWarningDoesNotSpeedUpReading) {
  Line line;
  line.path = "/";
  line.floor_line = gib(4);
  line.headroom = mib(257);
  line.warning = mib(256);
  arm(line);
  EXPECT_GE(interval(),
            interval_for(mib(129), possible_fill_rate(std::thread::hardware_concurrency())));
}

// inactive_file shrinks while usage is constant: no usage counter can show that crossing.
TEST_F(PollWorld, CgroupDriftBetweenFloorAndUsageLineIsSeen) {
  files_.write("cgroup/a/memory.current", "5000\n");
  files_.write("cgroup/a/memory.stat", "inactive_file 2000\n");
  const auto cgroup = tree_.open("/a");
  ASSERT_TRUE(cgroup);
  Line line;
  line.cgroup = cgroup->id();
  line.path = "/a";
  line.usage = Bytes{5000};
  line.floor_line = Bytes{4000};
  line.usage_line = Bytes{6000};
  line.headroom = Bytes{1000};
  arm(line);
  EXPECT_TRUE(next().empty());
  const MonotonicTime before = clock_.now();
  files_.write("cgroup/a/memory.stat", "inactive_file 500\n");
  const auto wakes = next();
  ASSERT_EQ(wakes.size(), 1u);
  EXPECT_EQ(wakes[0].cgroup, cgroup->id());
  EXPECT_EQ(wakes[0].usage, Bytes{4500});
  const SourceReadings crossing{cgroup->id(),
                                SourceReadings::Measured::working_set,
                                CrossingOrigin::reading,
                                {before, Bytes{3000}}};
  EXPECT_EQ(source_->take_crossings(), std::vector{crossing});
  EXPECT_TRUE(source_->take_crossings().empty()) << "taken";
}

TEST_F(PollWorld, ACrossingBeforeTheFirstReadHasNoBounds) {
  files_.write("cgroup/a/memory.current", "5000\n");
  const auto cgroup = tree_.open("/a");
  ASSERT_TRUE(cgroup);
  Line line;
  line.cgroup = cgroup->id();
  line.path = "/a";
  line.floor_line = Bytes{4000};
  line.headroom = Bytes{1000};
  arm(line);
  EXPECT_EQ(next().size(), 1u);
  EXPECT_TRUE(source_->take_crossings().empty());
}

TEST_F(PollWorld, ReportsAMetLineOnceAndAgainOnlyAfterGrowth) {
  constexpr int kStep = 16 << 8;  // pages of 16 MiB
  Line line;
  line.path = "/";
  line.floor_line = Bytes{4096 * 140};
  line.headroom = mib(1);
  arm(line);
  write_vmstat(100, 51, 10);
  EXPECT_EQ(next().size(), 1u);
  EXPECT_TRUE(next().empty()) << "reported already";
  line.headroom = Bytes{-4096};
  arm(line);
  EXPECT_EQ(interval(), milliseconds(100));
  EXPECT_TRUE(next().empty()) << "reported already, and re-armed";
  write_vmstat(100, 50 + kStep, 10);
  EXPECT_TRUE(next().empty());
  write_vmstat(100, 51 + kStep, 10);
  EXPECT_EQ(next().size(), 1u) << "16 MiB more than was reported";
  write_vmstat(100, 50, 10);
  EXPECT_TRUE(next().empty());
  write_vmstat(100, 51, 10);
  EXPECT_EQ(next().size(), 1u) << "met anew";
  // The loop found it unmet: a later crossing is reported, but not every millisecond.
  line.headroom = Bytes{4096};
  arm(line);
  EXPECT_EQ(interval(), milliseconds(10));
  EXPECT_EQ(next().size(), 1u);
}

TEST_F(PollWorld, DoesNotReportALineThatTheLoopFoundMet) {
  write_vmstat(100, 51, 10);
  Line line;
  line.path = "/";
  line.floor_line = Bytes{4096 * 140};
  line.headroom = Bytes{-4096};
  arm(line);
  EXPECT_TRUE(next().empty());
}

TEST_F(PollWorld, AFillRateIsComputedFromReadingsOfOneKindAndDropped) {
  const auto possible =
      interval_for(mib(610), possible_fill_rate(std::thread::hardware_concurrency()));
  // Reads these one millisecond after an arm(), at any distance.
  const auto reads = [&](Bytes usage, Bytes inactive) {
    files_.write("cgroup/a/memory.current", std::to_string(usage.count) + "\n");
    files_.write("cgroup/a/memory.stat", "inactive_file " + std::to_string(inactive.count) + "\n");
    Line line;
    line.cgroup = tree_.open("/a")->id();
    line.path = "/a";
    line.floor_line = mib(1000);
    line.headroom = Bytes{1};
    arm(line);
    EXPECT_TRUE(next().empty());
    return interval();
  };
  reads(mib(990), {});
  reads(mib(1010), mib(45));  // a working set of 965 MiB
  reads(mib(990), {});        // usage: 25 MiB more in 1 ms, of another kind
  EXPECT_EQ(reads(mib(390), {}), possible);
  reads(mib(365), {});
  EXPECT_LT(reads(mib(390), {}), possible) << "25 MiB in 1 ms";
  for (int i = 0; i < 30; ++i) reads(mib(390), {});
  EXPECT_EQ(interval(), possible);
}

// A distant line is not read at the pace of a near one.
TEST_F(PollWorld, EachLineHasItsOwnPace) {
  Line near;
  near.path = "/";
  near.floor_line = Bytes{4096 * 140};
  near.headroom = Bytes{1};
  Line far;
  far.cgroup = tree_.open("/a")->id();
  far.path = "/a";
  far.floor_line = Bytes{500};  // crossed, as its first reading shows
  far.headroom = mib(512);
  const Line lines[] = {near, far};
  ASSERT_TRUE(source_->arm(lines, clock_.now()));
  const auto due = clock_.now() +
                   interval_for(mib(512), possible_fill_rate(std::thread::hardware_concurrency()));
  std::vector<Wake> wakes;
  while (wakes.empty()) {
    ASSERT_LE(clock_.now(), due);
    wakes = next();
  }
  EXPECT_GE(clock_.now(), due);
  EXPECT_EQ(wakes[0].cgroup, far.cgroup);
}

TEST_F(PollWorld, ReadsNothingIfNothingIsArmed) {
  ASSERT_TRUE(source_->arm({}, clock_.now()));
  pollfd ready{source_->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 50), 0);
  EXPECT_EQ(interval(), Duration::zero());
}

TEST(PollSourceCreate, ALackingCounterIsNamed) {
  const test::TempTree files{{"cgroup/cgroup.controllers", ""},
                             {"proc/meminfo", ""},
                             {"proc/vmstat", "nr_anon_pages 1\n"}};
  const auto tree = kernel::CgroupTree::discover(files / "cgroup");
  ASSERT_TRUE(tree);
  const auto source = PollSource::create(*tree, files / "proc");
  ASSERT_FALSE(source);
  EXPECT_NE(source.error().text().find("nr_inactive_file"), std::string::npos);
}

}  // namespace
}  // namespace forestall::sources
