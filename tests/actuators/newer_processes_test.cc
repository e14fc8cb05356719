// SPDX-License-Identifier: Apache-2.0
// Which processes of a victim's cgroup count as started after its kill. Only their pids are used.
#include "actuators/newer_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "actuators/suspended_times.h"

namespace forestall::actuators {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

// The start of this process is CLOCK_BOOTTIME, a kill is CLOCK_MONOTONIC.
class NewerProcessesTest : public ::testing::Test {
 protected:
  NewerProcessesTest() {
    const auto stat = kernel::read_process_stat(::getpid());
    if (!stat) throw std::runtime_error(stat.error().text());
    const auto ticks = static_cast<std::int64_t>(stat->start_ticks);
    started_ = Duration(ticks * (1'000'000'000 / ::sysconf(_SC_CLK_TCK)));
  }
  // Whether this process counts as newer than a kill at `boot` of CLOCK_BOOTTIME, before which the
  // host had been suspended for `suspended`, as far as is known.
  bool is_newer(Duration boot, Duration suspended = {}, Duration known = {}) {
    const MonotonicTime killed(boot - suspended);
    NewerProcesses newer;
    newer.set_kill(killed, known, killed + hours(1));
    ProcessSnapshot snapshot;
    snapshot.present = {::getpid()};
    newer.leave_out(snapshot);
    EXPECT_EQ(snapshot.refused, newer.pids().size());
    EXPECT_EQ(snapshot.present.empty(), !newer.pids().empty());
    return !newer.pids().empty();
  }

  Duration started_{};
};

TEST_F(NewerProcessesTest, OneThatStartedMuchLaterThanTheKillIsNewer) {
  EXPECT_TRUE(is_newer(started_ - kForksWithin - milliseconds(1)));
  EXPECT_FALSE(is_newer(started_ - kForksWithin));
  EXPECT_FALSE(is_newer(started_ + seconds(5)));
}

// The kill was before the suspend, the start too.
TEST_F(NewerProcessesTest, ASuspendAfterBothChangesNothing) {
  EXPECT_TRUE(is_newer(started_ - seconds(3), hours(2), hours(2)));
  EXPECT_FALSE(is_newer(started_ + seconds(3), hours(2), hours(2)));
}

TEST_F(NewerProcessesTest, AnUnknownSuspendBeforeTheKillSparesMore) {
  EXPECT_TRUE(is_newer(started_ + seconds(3), hours(2), hours(1)));
}

TEST_F(NewerProcessesTest, AKillThatIsCompletedAtOnceHasNoNewerOnes) {
  const MonotonicTime killed(started_ - hours(1));
  NewerProcesses newer;
  newer.set_kill(killed, {}, killed + kForksWithin);
  ProcessSnapshot snapshot;
  snapshot.present = {::getpid()};
  newer.leave_out(snapshot);
  EXPECT_THAT(snapshot.present, ElementsAre(::getpid()));
  EXPECT_THAT(newer.pids(), IsEmpty());
}

TEST(SuspendedTimes, AKillIsComparedWithWhatWasKnownBeforeIt) {
  SuspendedTimes times;
  const auto at = [](int second) { return MonotonicTime(seconds(second)); };
  EXPECT_EQ(times.before(at(10)), Duration::zero());
  times.note(at(10), seconds(100));
  times.note(at(20), seconds(100) + milliseconds(1));  // the same
  times.note(at(30), seconds(160));
  EXPECT_EQ(times.before(at(9)), Duration::zero());
  EXPECT_EQ(times.before(at(10)), seconds(100));
  EXPECT_EQ(times.before(at(29)), seconds(100)) << "the suspend was at any time since 20 s";
  EXPECT_EQ(times.before(at(30)), seconds(160));
  for (int i = 0; i < 40; ++i) times.note(at(100 + i), seconds(1000 * (i + 1)));
  EXPECT_EQ(times.before(at(139)), seconds(40'000));
  EXPECT_EQ(times.before(at(30)), Duration::zero()) << "forgotten";
}

TEST(SuspendedTimes, TheHostsValueIsNotNegativeByMoreThanTheReading) {
  EXPECT_GT(suspended_since_boot(), -seconds(1));
}

}  // namespace
}  // namespace forestall::actuators
