// SPDX-License-Identifier: Apache-2.0
// The reader of the kernel's log on a socket that returns a record per read, and its clock.
#include "sources/oom_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "support/manual_clock.h"

namespace forestall::sources {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Duration kMs = std::chrono::milliseconds(1);

class OomLogTest : public testing::Test {
 protected:
  OomLogTest() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
      throw std::runtime_error("socketpair");
    }
    log_.emplace(UniqueFd(ends[0]));
    writer_ = UniqueFd(ends[1]);
  }
  void write(std::uint64_t sequence, const std::string& text) {
    const auto us = to_ns(clock_.now()) / 1000;
    const auto record =
        "6," + std::to_string(sequence) + "," + std::to_string(us) + ",-;" + text + "\n";
    ASSERT_EQ(::send(writer_.get(), record.data(), record.size(), 0),
              static_cast<ssize_t>(record.size()));
  }
  void write_kill(std::uint64_t sequence, int pid) {
    write(sequence, "Memory cgroup out of memory: Killed process " + std::to_string(pid) +
                        " (hog) total-vm:1kB, anon-rss:1kB, file-rss:1kB, shmem-rss:1kB, UID:0 "
                        "pgtables:1kB oom_score_adj:0");
  }
  std::vector<Wake> drain() {
    std::vector<Wake> wakes;
    log_->drain(clock_.now(), wakes);
    return wakes;
  }

  test::ManualClock clock_;
  std::optional<OomLog> log_;
  UniqueFd writer_;
};

TEST_F(OomLogTest, AKillIsAWakeAndAnEvent) {
  write(1, "something else");
  EXPECT_THAT(drain(), IsEmpty());
  write_kill(2, 7);
  const auto wakes = drain();
  ASSERT_THAT(wakes, SizeIs(1));
  EXPECT_EQ(wakes.front().source, WakeSource::oom_kill);
  EXPECT_EQ(wakes.front().at, clock_.now());
  const auto kills = log_->take_kills();
  ASSERT_THAT(kills, SizeIs(1));
  EXPECT_EQ(kills.front().victim.pid, 7);
  EXPECT_EQ(kills.front().at, clock_.now());
  EXPECT_THAT(log_->take_kills(), IsEmpty());
  EXPECT_EQ(log_->lost(), 0U);
}

TEST_F(OomLogTest, CountsMissingRecords) {
  write(10, "x");
  write(14, "y");
  drain();
  EXPECT_EQ(log_->lost(), 3U);
}

TEST_F(OomLogTest, ADumpOfManyLinesIsReadInParts) {
  clock_.advance(kMs);
  std::uint64_t sequence = 0;
  // A socket holds some 200 of these, fewer than one drain reads: so several.
  for (std::size_t i = 0; i < 3 * OomLog::kRecordsMax; ++i) {
    write(++sequence, "noise");
    if (sequence % 64 == 0) drain();
  }
  write_kill(++sequence, 9);
  drain();
  EXPECT_THAT(log_->take_kills(), SizeIs(1));
  EXPECT_EQ(log_->lost(), 0U);
}

TEST(LogClock, ComputesTheDifferenceFromPromptRecords) {
  LogClock clock;
  const auto at = [](std::int64_t ms) { return from_ns(ms * 1'000'000); };
  // The log's clock lags 100 ms behind; the first record is read 50 ms late.
  EXPECT_EQ(clock.to_monotonic(850 * kMs, at(1000)), at(1000));
  EXPECT_EQ(clock.to_monotonic(1900 * kMs, at(2000)), at(2000));
  // Read 300 ms late: reported with its own time, except for the drift of the clocks.
  const auto late = clock.to_monotonic(2600 * kMs, at(3000));
  EXPECT_GE(late, at(2700));
  EXPECT_LE(late, at(2702));
}

TEST(LogClock, FollowsADrift) {
  LogClock clock;
  // 500 ppm over a day is 43 s.
  MonotonicTime now = from_ns(0) + std::chrono::hours(1);
  Duration logged = std::chrono::hours(1);
  for (int hour = 0; hour < 24; ++hour) {
    now += std::chrono::hours(1);
    logged += std::chrono::hours(1) - std::chrono::milliseconds(1800);
    EXPECT_EQ(clock.to_monotonic(logged, now), now);
  }
}

}  // namespace
}  // namespace forestall::sources
