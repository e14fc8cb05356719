// SPDX-License-Identifier: Apache-2.0
// Pre-ranking in the warning zone, on real memory: it is done before the threshold is met, the kill
// uses it, the agent drops it afterwards, and usage that hovers near a line costs almost nothing.
#include "agent/victim_cache.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "integration/core_run.h"
#include "sources/poll_source.h"
#include "sources/usage_eventfd.h"

namespace forestall::test {
namespace {

// With a limit of 256 MiB the warning zone begins 32 MiB above the threshold.
constexpr Bytes kLimit = mib(256);
constexpr Bytes kThreshold = mib(64);
constexpr Bytes kInZone = mib(180);  // used; 12 MiB are left
const std::vector<CoreRun::MakeSource> kPoll{sources::PollSource::create};

class VictimCacheTest : public ::testing::Test {
 protected:
  VictimCacheTest() {
    scratch.limit(scratch.path(), kLimit);
    for (const char* name : {"small", "big"}) scratch.child(name);
  }
  [[nodiscard]] Config config() const {
    return watching(scratch.path(), kThreshold, {"small", "big"});
  }
  [[nodiscard]] Hog hog(const std::string& name, Bytes start) const {
    return Hog(scratch, scratch.path() + "/" + name, start);
  }
  ScratchCgroup scratch;
};

TEST_F(VictimCacheTest, DoesNotPreRankOrWakeOutsideTheZone) {
  const Hog big = hog("big", mib(100));
  CoreRun run(config(), kPoll);
  // A newly found tree is read again until it has settled. The intervals grow with the duration of
  // a read. Nothing else runs for minutes.
  const auto silent = [&] {
    return run.core().next_due() - SystemClock().now() > std::chrono::seconds(2);
  };
  ASSERT_TRUE(run.turn_until(silent));
  const std::uint64_t evaluations = run.core().evaluations();
  EXPECT_FALSE(run.turn_until([] { return false; }, std::chrono::milliseconds(1500)));
  EXPECT_EQ(run.core().evaluations(), evaluations);
  EXPECT_TRUE(run.core().victim_cache().subjects().empty());
  EXPECT_FALSE(run.core().victim_cache().ready(SystemClock().now()));
}

TEST_F(VictimCacheTest, TheWarningComesFirstAndTheKillUsesThePreRankedVictim) {
  const Hog small = hog("small", mib(20));
  Hog big = hog("big", mib(60));
  CoreRun run(config(), kPoll);
  EXPECT_TRUE(run.core().victim_cache().subjects().empty());
  big.grow(kInZone - scratch.usage(scratch.path()));
  const auto ready = [&] { return run.core().victim_cache().ready(SystemClock().now()); };
  ASSERT_TRUE(run.turn_until(ready)) << scratch.usage(scratch.path()).mib();
  EXPECT_EQ(run.core().kills(), 0u);
  ASSERT_EQ(run.core().victim_cache().subjects().size(), 1u);
  const auto& first = run.core().victim_cache().subjects()[0].first;
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].sample.workload.name, "big");
  // All of it before the core runs again. If the crossing came during an evaluation, between the
  // reads of the list and those of everything, the latter would decide.
  big.grow(mib(30));
  ASSERT_TRUE(big.wait_grown());
  ASSERT_TRUE(run.turn_until([&] { return run.kill() != nullptr; }));
  const Record& kill = *run.kill();
  EXPECT_EQ(kill.outcome->victim.name, "big");
  ASSERT_TRUE(kill.prepared) << "everything was read for it";
  EXPECT_EQ(kill.prepared->workloads, 2u);
  EXPECT_LT(kill.prepared->age, agent::VictimCache::kGoodFor);
  EXPECT_EQ(kill.decision.considered.size(), 2u);
  EXPECT_GT(kill.decision.considered[0].sample.usage, mib(150)) << "fresh, not as it was listed";
  EXPECT_EQ(scratch.oom_kills(scratch.path()), 0u);
}

// Regression: the count of the pre-ranking was kept, and a workload whose processes had exited was
// "killed" up to 16 times while the leaker went on. Its memory stays, held by this test.
TEST_F(VictimCacheTest, AWorkloadThatHasExitedSinceIsNoCandidate) {
  Hog small = hog("small", mib(20));
  const UniqueFd kept(::memfd_create("kept", MFD_CLOEXEC));
  const UniqueFd full(::eventfd(0, EFD_CLOEXEC));
  Child big([&] {
    scratch.add(scratch.path() + "/big", ::getpid());
    const std::vector<char> chunk(1 << 20, 'x');
    for (int i = 0; i < 100; ++i) {
      if (::write(kept.get(), chunk.data(), chunk.size()) < 0) return 1;
    }
    if (::eventfd_write(full.get(), 1) != 0) return 1;
    for (;;) ::pause();
  });
  eventfd_t ready = 0;
  ASSERT_EQ(::eventfd_read(full.get(), &ready), 0);
  CoreRun run(config(), kPoll);
  small.grow(kInZone - mib(120));
  ASSERT_TRUE(run.turn_until([&] { return run.core().victim_cache().ready(SystemClock().now()); }));
  ASSERT_EQ(run.core().victim_cache().subjects()[0].first[0].sample.workload.name, "big");
  big.reap();
  small.leak(mib(30), mib(2));
  ASSERT_TRUE(run.turn_until([&] { return run.kill() != nullptr; }));
  for (const Record& record : run.records()) {
    if (!record.outcome) continue;
    EXPECT_EQ(record.outcome->victim.name, "small");
  }
  EXPECT_EQ(run.core().kills(), 1U);
}

// Another workload passes the first of the list between the pre-ranking and the crossing.
TEST_F(VictimCacheTest, FreshValuesDecideNotTheList) {
  Hog small = hog("small", mib(86));
  const Hog big = hog("big", kInZone - mib(86));
  CoreRun run(config(), kPoll);
  ASSERT_TRUE(run.turn_until([&] { return run.core().victim_cache().ready(SystemClock().now()); }));
  ASSERT_EQ(run.core().victim_cache().subjects()[0].first[0].sample.workload.name, "big");
  small.leak(mib(40), mib(2));
  ASSERT_TRUE(run.turn_until([&] { return run.kill() != nullptr; }));
  EXPECT_EQ(run.kill()->outcome->victim.name, "small");
}

TEST_F(VictimCacheTest, ConsidersWorkloadsThatComeAfterThePreRanking) {
  const Hog big = hog("big", kInZone);
  Config with_late = config();
  WorkloadRule rule;
  rule.cgroup = scratch.path() + "/late";
  rule.name = "late";
  rule.priority = -10;
  with_late.workloads.push_back(rule);
  CoreRun run(with_late, kPoll);
  ASSERT_TRUE(run.turn_until([&] { return run.core().victim_cache().ready(SystemClock().now()); }));
  scratch.child("late");
  Hog late = hog("late", mib(1));
  const auto listed = [&] { return run.core().victim_cache().subjects()[0].first.size() == 2; };
  ASSERT_TRUE(run.turn_until(listed)) << "this core has no cgroup events";
  late.leak(mib(30), mib(2));
  ASSERT_TRUE(run.turn_until([&] { return run.kill() != nullptr; }));
  EXPECT_EQ(run.kill()->outcome->victim.name, "late") << "of lower priority, though smaller";
}

// At the warning there is no growth since the warning; the last calm evaluation is used instead.
TEST_F(VictimCacheTest, TheFirstPreRankingIncludesGrowthSinceTheCalm) {
  Hog small = hog("small", mib(10));
  const Hog big = hog("big", mib(100));
  Config growing = config();
  growing.ranking = Ranking::kubelet_growth;
  CoreRun run(growing, kPoll);
  small.grow(kInZone - scratch.usage(scratch.path()));
  ASSERT_TRUE(run.turn_until([&] { return run.core().victim_cache().ready(SystemClock().now()); }));
  const auto& first = run.core().victim_cache().subjects()[0].first;
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].sample.workload.name, "small");
  EXPECT_GT(first[0].sample.growth.value_or(Bytes{0}), mib(20));
}

TEST_F(VictimCacheTest, LeavingTheZoneReleasesEverything) {
  const Hog small = hog("small", mib(20));
  std::optional<Hog> big(std::in_place, scratch, scratch.path() + "/big", kInZone - mib(20));
  CoreRun run(config(), kPoll);
  ASSERT_TRUE(run.turn_until([&] { return run.core().victim_cache().ready(SystemClock().now()); }));
  big.reset();
  const auto given_back = [&] { return run.core().victim_cache().subjects().empty(); };
  EXPECT_TRUE(run.turn_until(given_back));
  EXPECT_FALSE(run.core().victim_cache().ready(SystemClock().now()));
  EXPECT_EQ(run.core().kills(), 0u);
}

TEST_F(VictimCacheTest, PidfdsAreHeldInTheZoneAndClosedBehindIt) {
  std::optional<Hog> big(std::in_place, scratch, scratch.path() + "/big", kInZone);
  CoreRun run(config(), kPoll);
  const CgroupId id = run.tree().open(scratch.path() + "/big")->id();
  const auto held = [&] { return run.ladder().pinned_of(id) != nullptr; };
  ASSERT_TRUE(run.turn_until(held));
  ASSERT_EQ(run.ladder().pinned_of(id)->processes().size(), 1u);
  EXPECT_EQ(run.ladder().pinned_of(id)->processes()[0].id().pid, big->pid());
  EXPECT_TRUE(run.ladder().pinned_of(id)->is_current());
  big.reset();
  EXPECT_TRUE(run.turn_until([&] { return !held(); }));
}

// An evaluation listener that blocks on request: a loop that hangs.
class HangingListener final : public exports::EvaluationListener {
 public:
  explicit HangingListener(const Child& until) : until_(until) {}
  void evaluated(const exports::Evaluation&) override {
    if (armed) ended_in_time = until_.wait_exit();
    armed = false;
  }
  bool armed = false;
  bool ended_in_time = false;

 private:
  const Child& until_;
};

TEST_F(VictimCacheTest, TheWatchdogActsWhenTheLoopHangs) {
  const Hog small = hog("small", mib(20));
  Hog big = hog("big", mib(60));
  HangingListener listener(big.child());
  CoreRun run(config(), kPoll, {&listener});
  big.grow(kInZone - scratch.usage(scratch.path()));
  const auto held = [&] {
    const auto& victim_cache = run.core().victim_cache();
    return victim_cache.ready(SystemClock().now()) && victim_cache.complete();
  };
  ASSERT_TRUE(run.turn_until(held));
  // The next evaluation does not return before the hog is dead, and no other process can kill it. A
  // warning line triggers the evaluation. The threshold lies 6 MiB past the end of the fast growth,
  // so that the loop hangs before it is met. The limit is then 15 s away.
  listener.armed = true;
  big.leak(mib(6), mib(4));
  ASSERT_TRUE(run.turn_until([&] { return run.kill() != nullptr; }));
  EXPECT_TRUE(listener.ended_in_time) << "the loop waited in vain";
  const Record& kill = *run.kill();
  EXPECT_EQ(kill.observation.wake.source, WakeSource::watchdog);
  EXPECT_EQ(kill.outcome->victim.name, "big");
  EXPECT_EQ(kill.outcome->state, KillState::released);
  EXPECT_GT(kill.outcome->freed, mib(100));
  ASSERT_TRUE(kill.outcome->signalled);
  EXPECT_GE(*kill.outcome->signalled - kill.stages.crossed, agent::Watchdog::kPatience);
  EXPECT_TRUE(small.alive());
  EXPECT_EQ(run.core().kills(), 1u);
  EXPECT_EQ(scratch.oom_kills(scratch.path()), 0u);
}

// As above, with a process that entered the victim's cgroup while the loop hung. The watchdog had
// not pinned it, and completing the kill must not kill it.
TEST_F(VictimCacheTest, AProtectedCgroupMadeDuringTheHangSurvives) {
  // On v2 a cgroup has processes or, with a controller, children.
  scratch.child("big/leaks");
  Hog big = hog("big/leaks", mib(60));
  HangingListener listener(big.child());
  Config with_protected = config();
  WorkloadRule rule;
  rule.cgroup = scratch.path() + "/big/keep";
  rule.name = "keep";
  rule.is_protected = true;
  with_protected.workloads.push_back(rule);
  CoreRun run(with_protected, kPoll, {&listener});
  big.grow(kInZone - scratch.usage(scratch.path()));
  const auto held = [&] {
    const auto& victim_cache = run.core().victim_cache();
    return victim_cache.ready(SystemClock().now()) && victim_cache.complete();
  };
  ASSERT_TRUE(run.turn_until(held));
  scratch.child("big/keep");
  const Hog keep = hog("big/keep", mib(1));
  listener.armed = true;
  big.leak(mib(6), mib(4));
  ASSERT_TRUE(run.turn_until([&] { return !listener.armed && !run.records().empty(); }));
  EXPECT_TRUE(listener.ended_in_time) << "the loop waited in vain";
  EXPECT_FALSE(big.alive());
  EXPECT_TRUE(keep.alive());
  EXPECT_EQ(run.records().front().observation.wake.source, WakeSource::watchdog);
  EXPECT_FALSE(run.records().front().outcome);
}

TEST_F(VictimCacheTest, ADryRunKillsNothing) {
  Config dry = config();
  dry.dry_run = true;
  Hog big = hog("big", mib(60));
  CoreRun run(dry, kPoll);
  big.grow(mib(150));
  ASSERT_TRUE(run.turn_until([&] { return run.kill() != nullptr; }));
  EXPECT_TRUE(run.kill()->outcome->dry_run);
  EXPECT_FALSE(run.turn_until([] { return false; }, std::chrono::seconds(1)));
  EXPECT_TRUE(big.alive());
}

// Usage that oscillates about a warning line as fast as possible.
TEST_F(VictimCacheTest, HoveringInTheZoneIsNoBusyLoop) {
  const Hog base = hog("big", mib(150));
  const Child flutter([&] {
    scratch.add(scratch.path() + "/small", getpid());
    // Across the first warning line at 160 MiB and the second at 176 MiB.
    const std::size_t size = std::size_t{24} << 20;
    for (;;) {
      void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
      munmap(memory, size);
    }
    return 0;
  });
  std::vector<CoreRun::MakeSource> sources = kPoll;
  if (mounts().v1) sources.push_back(sources::UsageEventfd::create);
  CoreRun run(config(), sources);
  const auto zone = [&] { return !run.core().victim_cache().subjects().empty(); };
  ASSERT_TRUE(run.turn_until(zone));
  const std::uint64_t evaluations = run.core().evaluations();
  const std::uint64_t lists = run.core().victim_cache().generation();
  EXPECT_FALSE(run.turn_until([] { return false; }, std::chrono::seconds(5)));
  EXPECT_LE(run.core().evaluations() - evaluations, 30u);
  EXPECT_LE(run.core().victim_cache().generation() - lists, 15u);
  EXPECT_EQ(run.core().kills(), 0u);
}

}  // namespace
}  // namespace forestall::test
