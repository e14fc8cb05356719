// SPDX-License-Identifier: Apache-2.0
// The BPF wake source on a real cgroup: what it reports to the loop, and how seldom.
#include "sources/bpf_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "integration/bpf_events.h"
#include "kernel/memory_files.h"
#include "support/child.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

class BpfSourceTest : public BpfSuite {
 protected:
  explicit BpfSourceTest(const FeatureSet& disabled = {})
      : tree_(kernel::CgroupTree::discover().value()),
        programs_(programs_without(disabled)),
        source_(programs_, tree_),
        path_(scratch_.child("watched")),
        id_(OpenCgroup(scratch_.directory(path_)).id()) {}

  // The line that the policy would set for a limit of `capacity` without inactive file pages.
  [[nodiscard]] Line line(Bytes at) const {
    Line line;
    line.signal = Signal::cgroup_memory_available;
    line.cgroup = id_;
    line.path = path_;
    line.usage = scratch_.usage(path_);
    line.usage_line = line.floor_line = at;
    line.headroom = at - line.usage;
    line.capacity = gib(1);
    return line;
  }

  void arm(const Line& line) {
    const Result<std::vector<std::string>> notes = source_.arm({&line, 1}, clock_.now());
    ASSERT_TRUE(notes.ok()) << notes.error().text();
    EXPECT_THAT(*notes, testing::IsEmpty());
  }

  // Waits up to `patience` for crossings of the subject.
  std::size_t crossings(Duration patience) {
    const MonotonicTime end = clock_.now() + patience;
    std::size_t reported = 0;
    while (reported == 0 && clock_.now() < end) {
      pollfd ring{source_.fd(), POLLIN, 0};
      ::poll(&ring, 1, static_cast<int>((end - clock_.now()) / std::chrono::milliseconds(1)) + 1);
      std::vector<Wake> wakes;
      source_.drain(clock_.now(), wakes);
      for (const Wake& wake : wakes) {
        const bool crossing =
            wake.source == WakeSource::usage_timer || wake.source == WakeSource::charge;
        if (!crossing || wake.cgroup != id_) continue;
        EXPECT_TRUE(wake.usage.has_value());
        EXPECT_LE(wake.at, clock_.now());
        ++reported;
      }
    }
    return reported;
  }

  // Of memory.untilOom on this node, as of now.
  [[nodiscard]] static Line line_on_available(Bytes headroom) {
    const auto meminfo = kernel::parse_meminfo(read_text("/proc/meminfo")).value();
    Line left;
    left.signal = Signal::memory_until_oom;
    left.path = "/";
    left.capacity = *meminfo.total;
    left.headroom = headroom;
    left.floor_line = *meminfo.total - *meminfo.available + headroom;
    return left;
  }

  // Grows in steps until `enough` is true after one, or half of what is available is taken. Free
  // pages on per-CPU lists do not count as available, and are used first: since Linux 6.7 these
  // lists hold up to an eighth of all memory. So no fixed growth is sure to lower MemAvailable.
  template <typename Enough>
  void grow_until(const Hog& hog, Enough enough) {
    const Line now = line_on_available({});
    const Bytes most{(now.capacity - now.floor_line).count / 2};
    for (Bytes grown{0}; grown < most && !enough(); grown += mib(64)) {
      hog.grow(mib(64));
      ASSERT_TRUE(hog.wait_grown());
    }
  }

  // Of the timer, about no cgroup.
  std::optional<Wake> wait_for_node_wake(Duration patience = kLong) {
    const MonotonicTime end = clock_.now() + patience;
    while (clock_.now() < end) {
      pollfd ring{source_.fd(), POLLIN, 0};
      ::poll(&ring, 1, static_cast<int>((end - clock_.now()) / std::chrono::milliseconds(1)) + 1);
      std::vector<Wake> wakes;
      source_.drain(clock_.now(), wakes);
      for (const Wake& wake : wakes) {
        if (wake.source == WakeSource::usage_timer && !wake.cgroup) return wake;
      }
    }
    return std::nullopt;
  }

  static constexpr Duration kLong = kPatience;
  static constexpr Duration kSilence = std::chrono::milliseconds(200);

  SystemClock clock_;
  kernel::CgroupTree tree_;
  kernel::BpfPrograms& programs_;
  sources::BpfSource source_;
  ScratchCgroup scratch_;
  std::string path_;
  CgroupId id_;
};

TEST_F(BpfSourceTest, ReportsACrossingOnce) {
  Hog hog(scratch_, path_, mib(8));
  arm(line(mib(32)));
  EXPECT_EQ(crossings(kSilence), 0U);
  hog.grow(mib(40));
  EXPECT_EQ(crossings(kLong), 1U);
  ASSERT_TRUE(hog.wait_grown());
  EXPECT_EQ(crossings(kSilence), 0U);
}

// The warning line replaces the threshold. The threshold is reported as soon as it is armed, also
// if it was crossed before.
TEST_F(BpfSourceTest, ReportsTheWarningFirstThenTheLine) {
  Hog hog(scratch_, path_, mib(8));
  Line next = line(mib(96));
  next.warning = mib(64);
  arm(next);
  EXPECT_EQ(crossings(kSilence), 0U);
  hog.grow(mib(32));
  EXPECT_EQ(crossings(kLong), 1U);
  ASSERT_TRUE(hog.wait_grown());
  EXPECT_LT(scratch_.usage(path_), mib(96));
  Line after = line(mib(96));
  hog.grow(mib(64));
  ASSERT_TRUE(hog.wait_grown());
  EXPECT_EQ(crossings(kSilence), 0U) << "nothing is armed before the first evaluation";
  arm(after);
  EXPECT_EQ(crossings(kLong), 1U);
}

TEST_F(BpfSourceTest, AnUnmovedLineIsNotArmedAgain) {
  Hog hog(scratch_, path_, mib(8));
  const Line far = line(gib(4096));
  arm(far);
  const MonotonicTime begin = clock_.now();
  const __u64 before = programs_.counters()->ticks;
  for (int i = 0; i < 1000; ++i) arm(far);
  const __u64 ticks = programs_.counters()->ticks - before;
  // Arming makes the timer sample at once. Without a change of the lines it samples at its own
  // interval only, 1 s this far from the line (CHECK_NS_MAX of bpf/usage.bpf.c). Two more are
  // allowed: one under way, and the one of the first arming.
  EXPECT_LE(ticks, static_cast<__u64>((clock_.now() - begin) / std::chrono::seconds(1)) + 2);
}

TEST_F(BpfSourceTest, AMetLineDoesNotKeepTheLoopSpinning) {
  Hog hog(scratch_, path_, mib(64));
  arm(line(mib(32)));
  EXPECT_EQ(crossings(kLong), 1U);
  // The loop evaluates, can do nothing, and arms again, repeatedly.
  for (int i = 0; i < 5; ++i) {
    arm(line(mib(32)));
    EXPECT_EQ(crossings(kSilence), 0U);
  }
  // Growth is reported, also in small steps with an evaluation after each.
  std::size_t reported = 0;
  for (int i = 0; i < 3; ++i) {
    hog.grow(sources::BpfSource::kGrowthStep - mib(8));
    ASSERT_TRUE(hog.wait_grown());
    reported += crossings(kSilence);
    arm(line(mib(32)));
  }
  if (reported == 0) reported = crossings(kLong);  // after the end of its quiet time
  EXPECT_GE(reported, 1U);
  EXPECT_LE(reported, 2U);
}

TEST_F(BpfSourceTest, TheNodeLineIsPlacedByHeadroom) {
  Hog hog(scratch_, path_, mib(8));
  Line node;
  node.path = "/";
  node.capacity = gib(1024);
  node.headroom = mib(96);
  arm(node);
  hog.grow(mib(320));
  EXPECT_TRUE(wait_for_node_wake().has_value());
}

// Where swap counts too, the line is on the node's working set, and is polled besides.
TEST_F(BpfSourceTest, ALineOnMemAvailableIsReportedInItsOwnAmount) {
  if (!programs_.shows_available()) {
    GTEST_SKIP() << "not applicable: MemAvailable of this host is not what its zones have; runs in "
                    "the guests";
  }
  Line left = line_on_available(mib(96));
  ASSERT_TRUE(source_.covers(left));
  left.with_swap = true;
  EXPECT_FALSE(source_.covers(left));
  left.with_swap = false;
  Hog hog(scratch_, path_, mib(8));
  arm(left);
  std::optional<Wake> reported;
  grow_until(hog, [&] {
    reported = wait_for_node_wake(kSilence);
    return reported.has_value();
  });
  ASSERT_TRUE(reported.has_value());
  // Other processes take and return memory between the reading and the line.
  constexpr Bytes kOthers = mib(32);
  EXPECT_GE(*reported->usage, left.floor_line - kOthers);
  const auto seen = source_.take_crossings();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].cgroup, CgroupId{});
  EXPECT_EQ(seen[0].measured, SourceReadings::Measured::not_left);
  EXPECT_LE(seen[0].before.at, seen[0].after->at);
  EXPECT_LE(seen[0].after->amount, *reported->usage);
}

// An evaluation takes time, in which memory fills.
TEST_F(BpfSourceTest, WhatIsTakenBeforeTheArmingDoesNotMoveALineOnMemAvailable) {
  if (!programs_.shows_available()) {
    GTEST_SKIP() << "not applicable: MemAvailable of this host is not what its zones have; runs in "
                    "the guests";
  }
  const Line left = line_on_available(mib(96));
  Hog hog(scratch_, path_, mib(8));
  // Beyond the line by more than other processes return.
  grow_until(hog, [&] { return line_on_available({}).floor_line > left.floor_line + mib(96); });
  arm(left);  // as it was observed before
  EXPECT_TRUE(wait_for_node_wake().has_value());
}

TEST_F(BpfSourceTest, AGoneCgroupIsANoteAndTakesNoOtherLineWithIt) {
  Line gone = line(mib(32));
  gone.path = scratch_.path() + "/never";
  gone.cgroup = CgroupId{1};
  const Line lines[] = {gone, line(mib(32))};
  const auto notes = source_.arm(lines, clock_.now());
  ASSERT_TRUE(notes.ok());
  ASSERT_EQ(notes->size(), 1U);
  EXPECT_THAT(notes->front(), testing::HasSubstr("never"));
  const Hog hog(scratch_, path_, mib(48));
  EXPECT_EQ(crossings(kLong), 1U);
}

TEST_F(BpfSourceTest, ReportsWorkloadChanges) {
  std::vector<Wake> wakes;
  source_.drain(clock_.now(), wakes);
  wakes.clear();
  scratch_.child("new");
  pollfd ring{source_.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&ring, 1, 20000), 1);
  source_.drain(clock_.now(), wakes);
  EXPECT_TRUE(std::ranges::any_of(
      wakes, [](const Wake& wake) { return wake.source == WakeSource::workload_change; }));
}

// After a kill the cgroups of the victims become empty, and the tree need not be listed again.
// Other cgroups of this host may change meanwhile: then the next try shows it.
TEST_F(BpfSourceTest, ACgroupThatLosesItsLastProcessIsNoChange) {
  const MonotonicTime give_up = clock_.now() + kLong;
  bool silent = false;
  while (!silent && clock_.now() < give_up) {
    std::optional<Hog> hog(std::in_place, scratch_, path_, mib(1));
    std::vector<Wake> wakes;
    source_.drain(clock_.now(), wakes);
    wakes.clear();
    hog.reset();
    source_.drain(clock_.now(), wakes);
    silent = std::ranges::none_of(
        wakes, [](const Wake& wake) { return wake.source == WakeSource::workload_change; });
  }
  EXPECT_TRUE(silent);
}

TEST_F(BpfSourceTest, ACrossingHasTheReadingBefore) {
  Hog hog(scratch_, path_, mib(8));
  arm(line(mib(32)));
  EXPECT_EQ(crossings(kSilence), 0U);
  const MonotonicTime before = clock_.now();
  hog.grow(mib(40));
  EXPECT_EQ(crossings(kLong), 1U);
  const auto seen = source_.take_crossings();
  ASSERT_FALSE(seen.empty());
  for (const SourceReadings& each : seen) {
    EXPECT_EQ(each.cgroup, id_);
    EXPECT_LT(each.before.amount, mib(32));
    ASSERT_TRUE(each.after);
    EXPECT_GE(each.after->amount, mib(32));
    EXPECT_GE(each.after->at, before);
    EXPECT_LE(each.before.at, each.after->at);
    EXPECT_EQ(each.by == CrossingOrigin::charge, each.before.at == each.after->at);
  }
  EXPECT_TRUE(source_.take_crossings().empty());
}

FeatureSet all_that_see_a_crossing_but_the_timer() {
  FeatureSet set;
  for (const Feature each : {Feature::bpf_charge, Feature::bpf_reclaim}) {
    set.set(static_cast<std::size_t>(each));
  }
  return set;
}

// Otherwise a charge or reclaim may report the crossing, and the timer reads no more.
class BpfTimerAlone : public BpfSourceTest {
 protected:
  BpfTimerAlone() : BpfSourceTest(all_that_see_a_crossing_but_the_timer()) {}
};

// An evaluation that was caused by something else finds the crossing first.
TEST_F(BpfTimerAlone, TheLastReadingsAreThereBeforeTheEventIsTaken) {
  Hog hog(scratch_, path_, mib(8));
  const MonotonicTime armed = clock_.now();
  arm(line(mib(32)));
  const auto last = [&](bool reached) {
    std::optional<SourceReadings> found;
    const MonotonicTime end = clock_.now() + kLong;
    while (!found && clock_.now() < end) {
      for (const SourceReadings& each : source_.last_readings()) {
        if ((each.before.amount >= mib(32)) == reached) found = each;
      }
    }
    return found;
  };
  const auto below = last(false);
  ASSERT_TRUE(below);
  hog.grow(mib(40));
  const auto reached = last(true);
  ASSERT_TRUE(reached);
  for (const SourceReadings& each : {*below, *reached}) {
    EXPECT_EQ(each.cgroup, id_);
    EXPECT_EQ(each.measured, SourceReadings::Measured::usage);
    EXPECT_EQ(each.by, CrossingOrigin::kernel);
    ASSERT_TRUE(each.after);
    EXPECT_EQ(each.after->amount, each.before.amount);
    EXPECT_LE(each.before.at, each.after->at);
    EXPECT_GE(each.before.at, armed);
    EXPECT_LE(each.after->at, clock_.now());
  }
  EXPECT_LT(below->after->at, reached->before.at);
}

}  // namespace
}  // namespace forestall::test
