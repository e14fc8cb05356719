// SPDX-License-Identifier: Apache-2.0
#include "agent/crossing_tracker.h"

#include <gtest/gtest.h>

#include <vector>

namespace forestall::agent {
namespace {

using Reading = CrossingBounds::Reading;
using std::chrono::milliseconds;

MonotonicTime at(int ms) {
  return from_ns(0) + milliseconds(ms);
}

using Measured = SourceReadings::Measured;

// A threshold of 100 bytes on a cgroup with 1000: it is met above 900.
Evidence evidence(int ms, std::int64_t available, CgroupId cgroup = CgroupId{7}) {
  Evidence evidence;
  evidence.threshold.signal = Signal::cgroup_memory_available;
  evidence.cgroup = cgroup;
  evidence.capacity = 1000;
  evidence.limit = binary(100);
  evidence.available = available;
  evidence.met = available < 100;
  evidence.at = at(ms);
  return evidence;
}

class CrossingTrackerTest : public ::testing::Test {
 protected:
  // An evaluation that took a millisecond to read.
  void evaluate(const std::vector<Evidence>& all, bool prepared = false) {
    Record record;
    record.decision.evidence = all;
    record.stages.observed = all.front().at + milliseconds(1);
    if (prepared) record.prepared = Prepared();
    for (const Evidence& each : all) {
      CgroupSample& sample = record.observation.watched.emplace_back();
      sample.id = each.cgroup;
      sample.usage = Bytes{each.capacity - each.available + cache};
    }
    tracker.evaluated(record);
  }
  static SourceReadings seen(CrossingOrigin by, SourceReadings::Reading before,
                             SourceReadings::Reading after) {
    return {CgroupId{7}, Measured::usage, by, before, after};
  }
  // The kernel read `before` bytes, and later `after`.
  void read(int before_ms, int before, int after_ms, int after) {
    tracker.add(
        seen(CrossingOrigin::kernel, {at(before_ms), Bytes{before}}, {at(after_ms), Bytes{after}}));
  }
  // A charge took usage from below `line` to `after`.
  void charged(int ms, int line, int after) {
    tracker.add(seen(CrossingOrigin::charge, {at(ms), Bytes{line - 1}}, {at(ms), Bytes{after}}));
  }
  [[nodiscard]] CrossingBounds bounds(CgroupId cgroup = CgroupId{7}) const {
    return tracker.bounds(evidence(0, 0, cgroup), at(999));
  }
  int cache = 0;  // inactive file pages
  CrossingTracker tracker;
};

TEST_F(CrossingTrackerTest, LiesBetweenTheLastReadingAboveAndTheFirstBelow) {
  evaluate({evidence(10, 150)});
  evaluate({evidence(20, 120)});
  evaluate({evidence(30, 90)});
  evaluate({evidence(40, 80)});
  EXPECT_EQ(bounds().above, (Reading{at(20), 120}));
  EXPECT_EQ(bounds().below, (Reading{at(31), 90})) << "when it was read";
  EXPECT_EQ(bounds().seen, CrossingOrigin::reading);
}

TEST_F(CrossingTrackerTest, AThresholdThatWasAlwaysMetHasNoReadingBefore) {
  evaluate({evidence(10, 90)});
  EXPECT_FALSE(bounds().above);
  EXPECT_EQ(bounds().below, (Reading{at(11), 90}));
}

TEST_F(CrossingTrackerTest, AnUnknownThresholdIsMetSinceItWasSeen) {
  EXPECT_FALSE(bounds().above);
  EXPECT_EQ(bounds().below, (Reading{at(999), 0}));
  evaluate({evidence(10, 150)});
  EXPECT_EQ(bounds().above, (Reading{at(10), 150})) << "of the loop; another part found it met";
  EXPECT_EQ(bounds().below, (Reading{at(999), 0}));
}

// The guard killed, and an evaluation came before its report.
TEST_F(CrossingTrackerTest, AReadingAfterTheCrossingIsNoneBeforeIt) {
  evaluate({evidence(10, 150)});
  EXPECT_FALSE(tracker.bounds(evidence(0, 0), at(5)).above);
}

TEST_F(CrossingTrackerTest, MemoryThatIsPendingReleaseMakesTheNextCrossingAnother) {
  evaluate({evidence(10, 150)});
  evaluate({evidence(20, 90)});
  Evidence covered = evidence(30, 90);
  covered.pending_release = 50;
  covered.met = false;
  evaluate({covered});
  evaluate({evidence(40, 20)});
  EXPECT_EQ(bounds().above, (Reading{at(30), 90}));
  EXPECT_EQ(bounds().below.at, at(41));
}

TEST_F(CrossingTrackerTest, TheChargeIsTheCrossing) {
  evaluate({evidence(10, 150)});
  read(17, 880, 19, 901);
  charged(19, 901, 901);
  evaluate({evidence(20, 90)});
  EXPECT_EQ(bounds().above, Reading{at(19)});
  EXPECT_EQ(bounds().below, Reading{at(19)});
  EXPECT_EQ(bounds().seen, CrossingOrigin::charge);
}

TEST_F(CrossingTrackerTest, ReadingsInTheKernelAreNarrower) {
  evaluate({evidence(10, 150)});
  read(18, 899, 19, 905);
  evaluate({evidence(20, 90)});
  EXPECT_EQ(bounds().above, Reading{at(18)});
  EXPECT_EQ(bounds().below, Reading{at(19)});
  EXPECT_EQ(bounds().seen, CrossingOrigin::kernel);
}

// The timer read 880, 899 and 905 and kept the last reading on each side of its line, at 900 or,
// for a warning, at 890. No event was taken yet.
TEST_F(CrossingTrackerTest, AReadingOfTheTimerIsABoundOnTheSideOnWhichItIs) {
  struct Case {
    const char* what;
    std::vector<std::pair<int, int>> readings;  // when, and what
    Reading above, below;
  };
  const Reading first{at(10), 150}, last{at(21), 90};
  const std::vector<Case> cases{
      {"none", {}, first, last},
      {"both at the line", {{18, 899}, {19, 905}}, Reading{at(18)}, Reading{at(19)}},
      {"both at the warning's line", {{17, 880}, {18, 899}}, Reading{at(18)}, last},
      {"at the line itself it was not met", {{18, 900}}, Reading{at(18)}, last},
      {"only the one above", {{19, 905}}, first, Reading{at(19)}},
      {"after the evaluation", {{22, 899}, {23, 905}}, first, last},
      {"before the last one that did not reach it", {{8, 899}, {9, 905}}, first, last},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.what);
    tracker.clear();
    evaluate({evidence(10, 150)});
    for (const auto& [when, what] : each.readings) read(when, what, when, what);
    evaluate({evidence(20, 90)});
    EXPECT_EQ(bounds().above, each.above);
    EXPECT_EQ(bounds().below, each.below);
    EXPECT_EQ(bounds().seen,
              each.above == first ? CrossingOrigin::reading : CrossingOrigin::kernel);
  }
}

// The warning's line is nearer, and the next evaluation was late.
TEST_F(CrossingTrackerTest, AChargeAtAnotherLineIsAReading) {
  evaluate({evidence(10, 150)});
  charged(15, 870, 870);
  evaluate({evidence(20, 90)});
  EXPECT_EQ(bounds().above, Reading{at(15)});
  EXPECT_EQ(bounds().below, (Reading{at(21), 90}));
  EXPECT_EQ(bounds().seen, CrossingOrigin::kernel);
}

// With 50 bytes of page cache the line is at a usage of 950, and at 930 when 20 of them are gone:
// usage at 945 does not show that the threshold was not met.
TEST_F(CrossingTrackerTest, ALineThatMovedDownMakesAReadingAboveItNoneBefore) {
  cache = 50;
  evaluate({evidence(10, 150)});
  read(17, 920, 18, 940);
  read(18, 945, 19, 951);
  charged(19, 951, 951);
  cache = 30;
  evaluate({evidence(20, 60)});
  EXPECT_EQ(bounds().above, Reading{at(17)});
  EXPECT_EQ(bounds().below, Reading{at(18)});
}

TEST_F(CrossingTrackerTest, ALineThatMovedUpMakesAReadingBelowItNoneAfter) {
  evaluate({evidence(10, 150)});
  charged(19, 901, 901);
  cache = 20;
  evaluate({evidence(20, 90)});
  EXPECT_EQ(bounds().above, Reading{at(19)});
  EXPECT_EQ(bounds().below, (Reading{at(21), 90}));
}

TEST_F(CrossingTrackerTest, MemoryThatWasPendingReleaseMovesTheLine) {
  Evidence covered = evidence(10, 90);
  covered.pending_release = 50;
  covered.met = false;
  evaluate({covered});
  read(18, 920, 19, 960);
  evaluate({evidence(20, 40)});
  EXPECT_EQ(bounds().above, (Reading{at(10), 90})) << "at 920 it was met without that memory";
  EXPECT_EQ(bounds().below, Reading{at(19)});
}

TEST_F(CrossingTrackerTest, ASourceInUserspaceHasTheReadingBefore) {
  evaluate({evidence(10, 150)});
  tracker.add({CgroupId{7}, Measured::working_set, CrossingOrigin::reading, {at(15), Bytes{900}}});
  cache = 500;
  evaluate({evidence(20, 90)});
  EXPECT_EQ(bounds().above, Reading{at(15)});
  EXPECT_EQ(bounds().below, (Reading{at(21), 90}));
  EXPECT_EQ(bounds().seen, CrossingOrigin::reading);
}

TEST_F(CrossingTrackerTest, AReadingOfAnotherAmountIsIgnored) {
  evaluate({evidence(10, 150)});
  tracker.add({CgroupId{7}, Measured::not_left, CrossingOrigin::reading, {at(15), Bytes{1}}});
  evaluate({evidence(20, 90)});
  EXPECT_EQ(bounds().above, (Reading{at(10), 150}));
}

TEST_F(CrossingTrackerTest, AnOlderReadingOfASourceDoesNotWidenTheBounds) {
  evaluate({evidence(10, 150)});
  read(5, 800, 9, 901);
  evaluate({evidence(20, 90)});
  EXPECT_EQ(bounds().above, (Reading{at(10), 150}));
  EXPECT_EQ(bounds().below, (Reading{at(21), 90}));
}

TEST_F(CrossingTrackerTest, AReadingIsUsedForTheNextEvaluationOnly) {
  evaluate({evidence(10, 150)});
  read(18, 860, 19, 905);
  evaluate({evidence(20, 150)});
  evaluate({evidence(30, 90)});
  EXPECT_EQ(bounds().above, (Reading{at(20), 150}));
  EXPECT_EQ(bounds().below, (Reading{at(31), 90}));
}

TEST_F(CrossingTrackerTest, AReadingOfAnotherSubjectIsIgnored) {
  evaluate({evidence(10, 150), evidence(10, 150, CgroupId{8})});
  charged(19, 901, 901);
  evaluate({evidence(20, 90, CgroupId{8}), evidence(20, 150)});
  EXPECT_EQ(bounds(CgroupId{8}).above, (Reading{at(10), 150}));
  EXPECT_EQ(bounds(CgroupId{8}).seen, CrossingOrigin::reading);
}

// The source watches the nearer line.
TEST_F(CrossingTrackerTest, EachThresholdOfASubjectHasALineOfItsOwn) {
  const auto both = [](int ms, std::int64_t available) {
    Evidence nearer = evidence(ms, available);
    nearer.limit = binary(110);
    nearer.met = available < 110;
    return std::vector{evidence(ms, available), nearer};
  };
  evaluate(both(10, 150));
  charged(19, 891, 895);
  evaluate(both(20, 90));
  EXPECT_EQ(bounds().above, Reading{at(19)});
  EXPECT_EQ(bounds().below, (Reading{at(21), 90}));
  EXPECT_EQ(tracker.bounds(both(0, 0)[1], at(999)).below, Reading{at(19)});
}

TEST_F(CrossingTrackerTest, AnEvaluationOfAPartKeepsTheRest) {
  evaluate({evidence(10, 150), evidence(10, 150, CgroupId{8})});
  evaluate({evidence(20, 90)}, /*prepared=*/true);
  EXPECT_EQ(bounds(CgroupId{8}).above, (Reading{at(10), 150}));
  evaluate({evidence(30, 90)});
  EXPECT_FALSE(bounds(CgroupId{8}).above) << "its cgroup is gone";
}

TEST_F(CrossingTrackerTest, AnotherConfigurationForgetsEverything) {
  evaluate({evidence(10, 150)});
  tracker.clear();
  EXPECT_FALSE(bounds().above);
}

}  // namespace
}  // namespace forestall::agent
