// SPDX-License-Identifier: Apache-2.0
#include "sources/oom_event_correlator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "support/manual_clock.h"

namespace forestall::sources::oom_event_correlator_test {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Duration kMs = std::chrono::milliseconds(1);

class OomEventCorrelatorTest : public testing::Test {
 protected:
  OomKillEvent kill(pid_t pid) const {
    OomKillEvent made;
    made.at = clock_.now();
    made.victim.pid = pid;
    return made;
  }
  void event(pid_t pid) { both_.report(OomEventSource::bpf, kill(pid), clock_.now()); }
  void line(pid_t pid) { both_.report(OomEventSource::log, kill(pid), clock_.now()); }
  std::vector<pid_t> take(OomEventCorrelator& from) {
    std::vector<OomKillEvent> kills;
    from.take(clock_.now(), kills);
    std::vector<pid_t> pids;
    for (const auto& event : kills) pids.push_back(event.victim.pid);
    return pids;
  }
  std::vector<pid_t> take() { return take(both_); }

  test::ManualClock clock_;
  OomEventCorrelator both_{true, true};
};

TEST_F(OomEventCorrelatorTest, TwoHalvesAreOneKill) {
  event(5);
  EXPECT_THAT(take(), IsEmpty());
  line(5);
  EXPECT_THAT(take(), testing::ElementsAre(5));
  EXPECT_THAT(take(), IsEmpty());
  line(6);
  event(6);
  EXPECT_THAT(take(), testing::ElementsAre(6));
  EXPECT_EQ(both_.next_due(), std::nullopt);
}

TEST_F(OomEventCorrelatorTest, ReportsAnEventAloneAfterTheWaitAndDropsItsLateHalf) {
  event(5);
  EXPECT_EQ(both_.next_due(), clock_.now() + OomEventCorrelator::kPatience);
  clock_.advance(OomEventCorrelator::kPatience);
  EXPECT_THAT(take(), testing::ElementsAre(5));
  line(5);
  EXPECT_THAT(take(), IsEmpty());
  EXPECT_EQ(both_.late(), 1U);
  // A new kill with the same number much later is another kill.
  clock_.advance(OomEventCorrelator::kWindow + kMs);
  line(5);
  event(5);
  EXPECT_THAT(take(), testing::ElementsAre(5));
}

TEST_F(OomEventCorrelatorTest, DoesNotWaitForAMissingSource) {
  OomEventCorrelator log_only(false, true);
  log_only.report(OomEventSource::log, kill(5), clock_.now());
  EXPECT_EQ(log_only.next_due(), clock_.now());
  EXPECT_THAT(take(log_only), SizeIs(1));
  OomEventCorrelator bpf_only(true, false);
  bpf_only.report(OomEventSource::bpf, kill(5), clock_.now());
  EXPECT_THAT(take(bpf_only), SizeIs(1));
}

TEST_F(OomEventCorrelatorTest, SeveralAtOncePairUpInOrder) {
  for (const pid_t pid : {5, 6, 7}) event(pid);
  for (const pid_t pid : {5, 6, 7}) line(pid);
  EXPECT_THAT(take(), testing::ElementsAre(5, 6, 7));
  // The same number twice within the window.
  event(8);
  event(8);
  line(8);
  line(8);
  EXPECT_THAT(take(), testing::ElementsAre(8, 8));
  EXPECT_EQ(both_.late(), 0U);
}

TEST_F(OomEventCorrelatorTest, FarApartInTimeIsNotTheSame) {
  event(5);
  auto other = kill(5);
  other.at += OomEventCorrelator::kWindow + kMs;
  both_.report(OomEventSource::log, other, clock_.now());
  clock_.advance(OomEventCorrelator::kPatience);
  EXPECT_THAT(take(), SizeIs(2));
}

TEST_F(OomEventCorrelatorTest, PairsABurstInAnyOrder) {
  const auto most = static_cast<pid_t>(OomEventCorrelator::kKept);
  for (pid_t pid = 1; pid <= most; ++pid) event(pid);
  for (pid_t pid = most; pid > 1; --pid) line(pid);
  EXPECT_THAT(take(), IsEmpty()) << "the first still waits, and all after it";
  line(1);
  std::vector<pid_t> all(OomEventCorrelator::kKept);
  std::iota(all.begin(), all.end(), 1);
  EXPECT_EQ(take(), all);
  // The same, from one source: every second event is late, the others are dropped.
  for (pid_t pid = 1; pid <= most; ++pid) event(pid);
  clock_.advance(OomEventCorrelator::kPatience);
  EXPECT_EQ(take(), all);
  for (pid_t pid = most; pid > 0; pid -= 2) line(pid);
  EXPECT_EQ(both_.late(), OomEventCorrelator::kKept / 2);
  clock_.advance(OomEventCorrelator::kWindow);
  for (pid_t pid = most; pid > 0; --pid) line(pid);
  EXPECT_EQ(both_.late(), OomEventCorrelator::kKept / 2);
  clock_.advance(OomEventCorrelator::kPatience);
  EXPECT_THAT(take(), SizeIs(OomEventCorrelator::kKept));
}

TEST_F(OomEventCorrelatorTest, ALateHalfBelongsToTheFirstUnpairedEvent) {
  event(5);
  clock_.advance(OomEventCorrelator::kWindow);
  event(5);
  clock_.advance(OomEventCorrelator::kPatience);
  EXPECT_THAT(take(), SizeIs(2));
  line(5);  // the first is past the window by now
  EXPECT_EQ(both_.late(), 1U);
  line(5);
  EXPECT_EQ(both_.late(), 1U);
  event(5);
  EXPECT_THAT(take(), testing::ElementsAre(5));
}

TEST_F(OomEventCorrelatorTest, MemoryIsBounded) {
  for (pid_t pid = 1; pid <= static_cast<pid_t>(OomEventCorrelator::kKept) + 10; ++pid) event(pid);
  EXPECT_THAT(take(), SizeIs(10));
}

TEST(MergeEvents, CombinesTheFieldsOfBoth) {
  OomKillEvent event;
  event.at = from_ns(1000);
  event.victim = {5, 77};
  event.comm = {'h', 'o', 'g'};
  event.uid = 3;
  event.cgroup = CgroupId{9};
  event.memory = ProcessMemory{1, 2, 3, 4, 5};
  event.points = 15;
  event.constraint = Constraint::memcg;
  event.constraint_deduced = true;
  event.domain = CgroupId{8};
  OomKillEvent log;
  log.at = from_ns(999);
  log.victim = {5, 0};
  log.comm = {'h', 'o', 'g'};
  log.uid = 4;
  log.path = "/a/b";
  log.memory = ProcessMemory{};
  log.constraint = Constraint::memcg;
  log.domain_path = "/a";
  log.domain_limit = mib(1);
  log.killer = ProcessId{6, 0};
  const auto both = merge_events(event, log);
  EXPECT_EQ(both.at, event.at);
  EXPECT_EQ(both.victim, event.victim);
  EXPECT_EQ(both.uid, 3U);
  EXPECT_EQ(both.cgroup, event.cgroup);
  EXPECT_EQ(both.path, "/a/b");
  EXPECT_EQ(both.memory, event.memory);
  EXPECT_EQ(both.points, 15);
  EXPECT_EQ(both.constraint, Constraint::memcg);
  EXPECT_FALSE(both.constraint_deduced);
  EXPECT_EQ(both.domain, CgroupId{8});
  EXPECT_EQ(both.domain_path, "/a");
  EXPECT_EQ(both.domain_limit, mib(1));
  EXPECT_EQ(both.killer, log.killer);
}

TEST(MergeEvents, TheKernelsWordCountsBeforeAConclusion) {
  OomKillEvent event;
  event.constraint = Constraint::memcg;
  event.constraint_deduced = true;
  event.domain = CgroupId{8};
  OomKillEvent log;
  log.constraint = Constraint::none;
  const auto both = merge_events(event, log);
  EXPECT_EQ(both.constraint, Constraint::none);
  EXPECT_EQ(both.domain, CgroupId{});
}

}  // namespace
}  // namespace forestall::sources::oom_event_correlator_test
