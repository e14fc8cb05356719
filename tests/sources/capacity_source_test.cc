// SPDX-License-Identifier: Apache-2.0
// The pace of the capacity source and what it reports, with tasks in a procfs of the test. Real
// filesystems are in tests/integration/filesystem_test.cc.
#include "sources/capacity_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

#include "support/manual_clock.h"
#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::IsEmpty;

TEST(CapacityInterval, HeadroomOverRateBetweenTenMillisecondsAndTenSeconds) {
  EXPECT_EQ(capacity_interval(gib(2).count, gib(2).count), seconds(1));
  EXPECT_EQ(capacity_interval(gib(1).count / 2, gib(2).count), milliseconds(250));
  EXPECT_EQ(capacity_interval(gib(1000).count, gib(2).count), seconds(10));
  EXPECT_EQ(capacity_interval(std::int64_t{1} << 62, 1), seconds(10));
  EXPECT_EQ(capacity_interval(1, gib(2).count), milliseconds(10));
  EXPECT_EQ(capacity_interval(0, 1), milliseconds(10));
  EXPECT_EQ(capacity_interval(-7, 1), milliseconds(10));
}

TEST(PossibleUseRate, InTheSignalsUnit) {
  EXPECT_EQ(possible_use_rate(Signal::nodefs_available, 4), gib(2).count);
  EXPECT_EQ(possible_use_rate(Signal::containerfs_available, 4), gib(2).count);
  EXPECT_EQ(possible_use_rate(Signal::swap_available, 4), gib(2).count);
  EXPECT_EQ(possible_use_rate(Signal::imagefs_inodes_free, 4), 200'000);
  EXPECT_EQ(possible_use_rate(Signal::pid_available, 4), 120'000);
  EXPECT_EQ(possible_use_rate(Signal::pid_available, 0), 30'000);
}

class CapacityWorld : public ::testing::Test {
 protected:
  CapacityWorld() : filesystems_({}, proc_.path()) {
    run(1000);
    tasks_.emplace(proc_.path());
    swap(1000, 500);
    auto made = CapacitySource::create(filesystems_, *tasks_, proc_.path());
    if (!made) throw std::runtime_error(made.error().text());
    source_ = std::move(made).value();
  }
  void run(std::int64_t tasks) {
    proc_.write("loadavg", "0.00 0.00 0.00 1/" + std::to_string(tasks) + " 1\n");
  }
  void swap(std::int64_t total_kib, std::int64_t free_kib) {
    proc_.write("meminfo", "MemTotal: 9 kB\nSwapTotal: " + std::to_string(total_kib) +
                               " kB\nSwapFree: " + std::to_string(free_kib) + " kB\n");
  }
  // The loop's reading: 100 000 tasks at most, met if less than `met_below` is available.
  void watch(std::int64_t met_below, std::int64_t available) {
    const CapacityLine line{Signal::pid_available, met_below, available};
    source_->watch(std::span(&line, 1), clock_.now());
  }
  // Waits for the timer, then drains.
  std::vector<Wake> next() {
    pollfd ready{source_->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&ready, 1, 15'000), 1);
    clock_.advance(source_->interval());
    std::vector<Wake> wakes;
    source_->drain(clock_.now(), wakes);
    return wakes;
  }
  test::TempTree proc_{{"sys/kernel/pid_max", "100000\n"}, {"sys/kernel/threads-max", "200000\n"}};
  FilesystemReader filesystems_;
  std::optional<TaskReader> tasks_;
  std::unique_ptr<CapacitySource> source_;
  test::ManualClock clock_;
};

TEST_F(CapacityWorld, FarFromALineItSleepsAsLongAsItMay) {
  watch(-2'000'000'000, 99'000);
  EXPECT_EQ(source_->interval(), seconds(10));
}

TEST_F(CapacityWorld, ReportsACrossingAndARecoveryOnceEach) {
  watch(98'000, 99'000);
  EXPECT_THAT(next(), IsEmpty());
  run(2000);
  EXPECT_THAT(next(), IsEmpty()) << "98000 are not less than 98000";
  run(2001);
  const auto wakes = next();
  ASSERT_EQ(wakes.size(), 1u);
  EXPECT_EQ(wakes[0].source, WakeSource::poll);
  EXPECT_FALSE(wakes[0].cgroup);
  EXPECT_FALSE(wakes[0].usage);
  EXPECT_EQ(source_->interval(), milliseconds(100));
  EXPECT_THAT(next(), IsEmpty()) << "reported already";
  watch(98'000, 97'999);
  EXPECT_THAT(next(), IsEmpty()) << "the loop has seen it";
  run(3000);
  EXPECT_THAT(next(), IsEmpty()) << "more of the same";
  run(2000);
  EXPECT_EQ(next().size(), 1u) << "recovery";
  EXPECT_THAT(next(), IsEmpty());
}

// The loop read the crossing before the source did: the source reports only the recovery.
TEST_F(CapacityWorld, DoesNotReportWhatTheLoopFound) {
  run(2001);
  watch(98'000, 97'999);
  EXPECT_THAT(next(), IsEmpty());
  run(1000);
  EXPECT_EQ(next().size(), 1u);
}

// Minimum reclaim: the line of a driving threshold is higher.
TEST_F(CapacityWorld, ADrivingLineRecoversAtItsTarget) {
  run(2001);
  watch(98'500, 97'999);
  run(1600);
  EXPECT_THAT(next(), IsEmpty());
  run(1500);
  EXPECT_EQ(next().size(), 1u);
}

TEST_F(CapacityWorld, AUseRateIsComputedAndDropped) {
  const auto possible =
      possible_use_rate(Signal::pid_available, std::thread::hardware_concurrency());
  watch(0, 108 * possible);
  EXPECT_EQ(source_->interval(), seconds(10));
  clock_.advance(seconds(1));
  watch(0, 8 * possible);
  EXPECT_EQ(source_->interval(), seconds(8)) << "a hundred times what is possible is no use";
  clock_.advance(seconds(1));
  watch(0, 4 * possible);
  EXPECT_EQ(source_->interval(), seconds(1)) << "four times as fast as thought possible";
  watch(0, 8 * possible);
  EXPECT_EQ(source_->interval(), seconds(2)) << "nothing was read since, nothing is forgotten";
  for (int i = 0; i < 40; ++i) {
    clock_.advance(seconds(1));
    watch(0, 8 * possible);
  }
  EXPECT_EQ(source_->interval(), seconds(8));
}

TEST_F(CapacityWorld, FreeSwapIsReadFromMeminfo) {
  const CapacityLine line{Signal::swap_available, kib(400).count, kib(500).count};
  source_->watch(std::span(&line, 1), clock_.now());
  EXPECT_THAT(next(), IsEmpty());
  swap(1000, 399);
  EXPECT_EQ(next().size(), 1u);
  swap(0, 0);
  EXPECT_THAT(next(), IsEmpty()) << "swapoff is no recovery";
  EXPECT_EQ(source_->interval(), seconds(10));
  // Near its line, so that the timer fires without those ten seconds.
  const CapacityLine near{Signal::pid_available, 98'999, 99'000};
  const CapacityLine lines[] = {{line.signal, line.met_below, kib(399).count}, near};
  source_->watch(lines, clock_.now());
  swap(1000, 400);
  clock_.advance(seconds(10));
  EXPECT_EQ(next().size(), 1u) << "recovery";
}

TEST_F(CapacityWorld, SeldomReadsUnreadableSubjects) {
  const CapacityLine line{Signal::nodefs_available, 10, 20};  // no such place
  source_->watch(std::span(&line, 1), clock_.now());
  EXPECT_EQ(source_->interval(), milliseconds(10));
  EXPECT_THAT(next(), IsEmpty());
  EXPECT_EQ(source_->interval(), seconds(10));
}

TEST_F(CapacityWorld, ReadsNothingIfNothingIsWatched) {
  source_->watch({}, clock_.now());
  EXPECT_EQ(source_->interval(), Duration::zero());
  pollfd ready{source_->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 50), 0);
  ASSERT_TRUE(source_->arm({}, clock_.now()));
}

}  // namespace
}  // namespace forestall::sources
