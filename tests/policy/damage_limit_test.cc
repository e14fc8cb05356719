// SPDX-License-Identifier: Apache-2.0
#include "policy/damage_limit.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "model/workload_class.h"
#include "policy/deadlines.h"
#include "policy/rank.h"
#include "tests/policy/reported.h"
#include "tests/policy/world.h"

namespace forestall::policy::damage_limit_test {
namespace {

constexpr Bytes kLimit = mib(1000);
constexpr Bytes kThreshold = mib(100);

WorkloadSample calm(const std::string& path, Bytes held = mib(50)) {
  return workload("/g/" + path, held, 0, held + mib(10));
}

WorkloadSample greedy(const std::string& path, Bytes held) {
  return workload("/g/" + path, held, 0, mib(1));
}

KillProgress killed(const std::string& path, Bytes expected, Bytes freed, double at,
                    KillState state = KillState::released) {
  KillProgress done = kill("/g/" + path, Bytes{0}, state);
  done.started = second(at);
  done.expected = expected;
  done.freed = freed;
  return done;
}

// A cgroup "/g" of 1000 MiB with a threshold of 100 MiB.
Story group() {
  Threshold threshold = hard(Signal::cgroup_memory_available, kThreshold);
  threshold.cgroup = "/g";
  Story story(config({threshold}));
  return story;
}

std::string evaluate(Story& story, double at, Bytes available,
                     std::vector<WorkloadSample> workloads) {
  story.now.watched = {cgroup("/g", kLimit, available)};
  story.now.workloads = std::move(workloads);
  return story.evaluate(at);
}

TEST(DamageLimit, KillsOneLeakAfterTheOther) {
  Story story = group();
  std::vector<WorkloadSample> leaks{greedy("a", mib(240)), greedy("b", mib(230)),
                                    greedy("c", mib(220)), greedy("d", mib(210))};
  double at = 1;
  for (const char* name : {"a", "b", "c", "d"}) {
    EXPECT_EQ(evaluate(story, at, mib(90), leaks), "kill /g/" + std::string(name) + " for /g");
    const Bytes held = *leaks.front().usage;
    leaks.erase(leaks.begin());
    story.now.kills.push_back(killed(name, held, held, at));
    // The others leak as much again.
    const auto others = static_cast<std::int64_t>(leaks.size());
    for (WorkloadSample& leak : leaks) *leak.usage += Bytes{held.count / others};
    at += 0.1;
  }
}

TEST(DamageLimit, AVictimThatFreesLittleStopsTheSeries) {
  Story story = group();
  const auto c = greedy("c", mib(90));
  EXPECT_EQ(evaluate(story, 1, mib(90), {greedy("a", mib(300)), greedy("b", mib(200)), c}),
            "kill /g/a for /g");
  story.now.kills = {killed("a", mib(300), mib(20), 1)};
  // What is left behind still grows: no workload does.
  const auto left = [](std::int64_t amount) { return with_processes(greedy("a", mib(amount)), 0); };
  EXPECT_EQ(evaluate(story, 1.1, mib(90), {left(300), greedy("b", mib(200)), c}),
            "none for /g: kills-freed-little");
  const Damage& damage = *story.decision().damage;
  EXPECT_EQ(damage.kills, 1U);
  EXPECT_EQ(damage.expected, mib(300));
  EXPECT_EQ(damage.freed, mib(20));
  EXPECT_EQ(damage.left_behind, mib(300));
  EXPECT_EQ(damage.killable, mib(290));
  EXPECT_EQ(damage.need, mib(10));
  // The kernel would act next: one more kill, and no third one.
  EXPECT_EQ(evaluate(story, 1.2, mib(20), {left(370), greedy("b", mib(200)), c}),
            "kill /g/b for /g");
  story.now.kills.push_back(killed("b", mib(200), mib(10), 1.2));
  const auto rest = with_processes(greedy("b", mib(190)), 0);
  EXPECT_EQ(evaluate(story, 1.3, mib(20), {left(370), rest, c}), "none for /g: kills-freed-little");
  EXPECT_EQ(next_deadline(story.config(), story.state()), second(11)) << "the window's end";
}

// Found by the hostile campaign: a tenant left shared memory behind, and the next leak ran into the
// limit, where the kernel killed a protected process.
TEST(DamageLimit, AVictimThatFreesLittleDoesNotSaveTheNextLeak) {
  Story story = group();
  // Two victims fell short: the one further kill near the OOM killer is used up.
  story.now.kills = {killed("z", mib(300), mib(20), 0.9), killed("a", mib(300), mib(20), 1)};
  const auto left = with_processes(greedy("a", mib(280)), 0);
  WorkloadSample leak = greedy("b", mib(200));
  leak.growth = mib(11);
  EXPECT_EQ(evaluate(story, 1.1, mib(90), {left, leak}), "none for /g: kills-freed-little")
      << "the kernel's OOM killer is not near";
  leak.growth = mib(79);
  EXPECT_EQ(evaluate(story, 1.2, mib(20), {left, leak}), "none for /g: kills-freed-little")
      << "less than the threshold lacks";
  leak.growth = std::nullopt;
  EXPECT_EQ(evaluate(story, 1.3, mib(20), {left, leak}), "none for /g: kills-freed-little");
  WorkloadSample within = calm("b", mib(200));
  within.growth = mib(100);
  EXPECT_EQ(evaluate(story, 1.4, mib(20), {left, within}), "none for /g: kills-freed-little");
  leak.growth = mib(80);
  EXPECT_EQ(evaluate(story, 1.5, mib(20), {left, leak}), "kill /g/b for /g");
}

// A series of two kills that fell short: the one further kill near the OOM killer is used up.
// Two thirds of what they held stays charged to "a".
class AfterShortKills {
 public:
  AfterShortKills() {
    story.now.kills = {killed("z", mib(300), mib(20), 0.9), killed("a", mib(300), mib(20), 1)};
  }
  std::string evaluate(double at, Bytes available, std::vector<WorkloadSample> others) {
    others.push_back(with_processes(greedy("a", mib(280)), 0));
    return damage_limit_test::evaluate(story, at, available, std::move(others));
  }
  Story story = group();
};

WorkloadSample grown(WorkloadSample sample, std::optional<Bytes> growth) {
  sample.growth = growth;
  return sample;
}

TEST(DamageLimit, AWorkloadThatDoesNotGrowDoesNotShieldOneThatDoes) {
  AfterShortKills after;
  EXPECT_EQ(after.evaluate(1.1, mib(20),
                           {grown(greedy("decoy", mib(400)), Bytes{0}),
                            grown(greedy("leak", mib(200)), mib(80))}),
            "kill /g/leak for /g");
  EXPECT_EQ(after.story.decision().considered.front().sample.workload.path, "/g/decoy");
}

// With `ranking: kernel`, and in a spike, growth since the warning is unknown.
TEST(DamageLimit, TheGrowthSinceTheLastKillNeedsNoWarning) {
  AfterShortKills after;
  EXPECT_EQ(after.evaluate(1.1, mib(90), {greedy("decoy", mib(400)), greedy("leak", mib(130))}),
            "none for /g: kills-freed-little");
  EXPECT_EQ(after.evaluate(1.2, mib(30), {greedy("decoy", mib(400)), greedy("leak", mib(190))}),
            "none for /g: kills-freed-little")
      << "the kernel's OOM killer is not near";
  EXPECT_EQ(after.evaluate(1.3, mib(20), {greedy("decoy", mib(400)), greedy("leak", mib(200))}),
            "kill /g/leak for /g");
  after.story.now.kills.push_back(killed("leak", mib(200), mib(200), 1.3));
  EXPECT_EQ(after.evaluate(1.4, mib(220), {greedy("decoy", mib(400))}), "none: no-threshold-met");
}

// What is left behind is most of what the threshold lacks: no leak grows by all of it.
TEST(DamageLimit, ALeakIntoTheRestOfTheMemoryDies) {
  AfterShortKills after;
  EXPECT_EQ(after.evaluate(1.1, mib(40), {greedy("decoy", mib(400))}),
            "none for /g: kills-freed-little");
  EXPECT_EQ(after.evaluate(1.2, mib(25), {greedy("decoy", mib(400)), greedy("leak", mib(6))}),
            "none for /g: kills-freed-little")
      << "other memory took more";
  EXPECT_EQ(after.evaluate(1.3, mib(20), {greedy("decoy", mib(400)), greedy("leak", mib(15))}),
            "kill /g/leak for /g");
}

TEST(DamageLimit, AWorkloadWithinItsRequestDoesNotPayForItsGrowth) {
  AfterShortKills after;
  const auto evaluate = [&](double at, Bytes available, Bytes held) {
    return after.evaluate(
        at, available,
        {greedy("decoy", mib(400)), workload("/g/within", held, 0, mib(300)), greedy("b", mib(4))});
  };
  EXPECT_EQ(evaluate(1.1, mib(90), mib(100)), "none for /g: kills-freed-little");
  EXPECT_EQ(evaluate(1.2, mib(10), mib(180)), "none for /g: kills-freed-little");
}

TEST(DamageLimit, MemoryThatGrowsOutsideIsNotTheLeastGrowersFault) {
  AfterShortKills after;
  EXPECT_EQ(after.evaluate(1.1, mib(90), {greedy("b", mib(300)), greedy("c", mib(20))}),
            "none for /g: kills-freed-little");
  EXPECT_EQ(after.evaluate(1.2, mib(20), {greedy("b", mib(330)), greedy("c", mib(20))}),
            "none for /g: kills-freed-little")
      << "30 of 70 MiB";
  EXPECT_EQ(after.evaluate(1.3, mib(15), {greedy("b", mib(340)), greedy("c", mib(20))}),
            "kill /g/b for /g")
      << "40 of 75 MiB";
}

TEST(DamageLimit, UsageThatWasUnknownAtTheLastKillIsNoGrowth) {
  AfterShortKills after;
  const auto unread = workload("/g/unread", std::nullopt, 0, mib(1));
  EXPECT_EQ(after.evaluate(1.1, mib(90), {unread, greedy("b", mib(100))}),
            "none for /g: kills-freed-little");
  EXPECT_EQ(after.evaluate(1.2, mib(20), {greedy("unread", mib(300)), greedy("b", mib(100))}),
            "none for /g: kills-freed-little")
      << "it may have held all of it before";
  EXPECT_EQ(after.evaluate(1.3, mib(10), {greedy("unread", mib(300)), greedy("b", mib(190))}),
            "kill /g/b for /g")
      << "90 of 90 MiB that are known to have been taken since";
}

TEST(DamageLimit, AKillThatDidNotBeginLeavesTheGrowthBeforeIt) {
  AfterShortKills after;
  const auto evaluate = [&](double at, Bytes available, Bytes leak) {
    return after.evaluate(at, available, {greedy("decoy", mib(400)), greedy("leak", leak)});
  };
  EXPECT_EQ(evaluate(1.1, mib(90), mib(130)), "none for /g: kills-freed-little");
  EXPECT_EQ(evaluate(1.2, mib(20), mib(200)), "kill /g/leak for /g");
  EXPECT_EQ(evaluate(1.3, mib(20), mib(200)), "kill /g/leak for /g") << "70 MiB since 1.1 s";
  after.story.now.kills.push_back(killed("leak", mib(200), Bytes{0}, 1.3, KillState::terminating));
  EXPECT_EQ(evaluate(1.4, mib(20), mib(200)), "none for /g: kills-freed-little")
      << "this kill began, and nothing grew since";
}

TEST(DamageLimit, AKillThatDidNotBeginStartsNoSeries) {
  Story story = group();
  const auto others = [] {
    return std::vector<WorkloadSample>{greedy("b", mib(60)), greedy("c", mib(50))};
  };
  auto all = others();
  all.push_back(greedy("a", mib(70)));
  EXPECT_EQ(evaluate(story, 1, mib(90), all), "kill /g/a for /g");
  // What grows now was not made room for by a kill.
  EXPECT_EQ(evaluate(story, 2, mib(20), all), "kill /g/a for /g");
  story.now.kills = {killed("a", mib(70), mib(70), 2)};
  EXPECT_EQ(evaluate(story, 2.1, mib(90), others()), "kill /g/b for /g");
  EXPECT_EQ(story.decision().damage->outside_growth, Bytes{0});
}

// The guard and the watchdog act between two evaluations.
TEST(DamageLimit, GrowthIsCountedFromAKillThatAnotherPartDecided) {
  AfterShortKills after;
  const auto evaluate = [&](double at, Bytes available, Bytes leak) {
    return after.evaluate(at, available, {greedy("decoy", mib(400)), greedy("b", leak)});
  };
  EXPECT_EQ(evaluate(1.1, mib(90), mib(130)), "none for /g: kills-freed-little");
  after.story.now.kills.push_back(killed("other", mib(100), mib(10), 1.2));
  EXPECT_EQ(evaluate(1.3, mib(20), mib(180)), "none for /g: kills-freed-little")
      << "50 of 70 MiB since 1.1 s, but that kill was for them";
  EXPECT_EQ(evaluate(1.4, mib(10), mib(180)), "none for /g: kills-freed-little");
  EXPECT_EQ(evaluate(1.5, mib(8), mib(190)), "kill /g/b for /g") << "10 of 12 MiB since 1.3 s";
}

TEST(DamageLimit, WhatGrewSinceTheLastKillGoesBeforeWhatGrewEarlier) {
  AfterShortKills after;
  const auto evaluate = [&](double at, Bytes available, Bytes leak) {
    return after.evaluate(at, available,
                          {grown(greedy("earlier", mib(400)), mib(90)), greedy("leak", leak)});
  };
  EXPECT_EQ(evaluate(1.1, mib(90), mib(130)), "none for /g: kills-freed-little");
  EXPECT_EQ(evaluate(1.2, mib(20), mib(200)), "kill /g/leak for /g");
}

TEST(DamageLimit, OfSeveralThatGrewTheFirstInTheOrderOfEvictionDies) {
  AfterShortKills after;
  EXPECT_EQ(after.evaluate(1.1, mib(90),
                           {greedy("b", mib(120)), greedy("c", mib(100)), greedy("d", mib(150))}),
            "none for /g: kills-freed-little");
  EXPECT_EQ(after.evaluate(1.2, mib(20),
                           {greedy("b", mib(142)), greedy("c", mib(138)), greedy("d", mib(160))}),
            "kill /g/b for /g")
      << "d grew by less than half of what c did";
}

TEST(DamageLimit, TheOneFurtherKillTakesTheLeakToo) {
  Story story = group();
  story.now.kills = {killed("a", mib(300), mib(20), 1)};
  const auto left = with_processes(greedy("a", mib(280)), 0);
  EXPECT_EQ(evaluate(story, 1.1, mib(90), {left, greedy("decoy", mib(400)), greedy("b", mib(10))}),
            "none for /g: kills-freed-little");
  EXPECT_EQ(evaluate(story, 1.2, mib(20), {left, greedy("decoy", mib(400)), greedy("b", mib(80))}),
            "kill /g/b for /g");
}

// Memory of a removed cgroup is charged to its parent, so it grew outside of the candidates.
TEST(DamageLimit, ALeakAfterAFailedSeriesDiesAlthoughMemoryGrewOutside) {
  Story story = group();
  story.now.kills = {killed("a", mib(100), mib(100), 1)};
  const WorkloadSample decoy = greedy("decoy", mib(290));
  EXPECT_EQ(evaluate(story, 1.05, mib(60), {greedy("b", mib(310)), decoy, greedy("c", mib(50))}),
            "kill /g/b for /g");
  story.now.kills.push_back(killed("b", mib(310), mib(310), 1.05));
  EXPECT_EQ(evaluate(story, 1.1, mib(60), {decoy, greedy("c", mib(50))}),
            "none for /g: held-by-no-candidate");
  EXPECT_EQ(evaluate(story, 1.2, mib(40), {decoy, greedy("c", mib(70))}),
            "none for /g: held-by-no-candidate")
      << "the kernel's OOM killer is not near";
  EXPECT_EQ(evaluate(story, 1.3, mib(5), {decoy, greedy("c", mib(70))}),
            "none for /g: held-by-no-candidate")
      << "most of it grew outside";
  EXPECT_EQ(evaluate(story, 1.4, mib(5), {decoy, greedy("c", mib(260))}), "kill /g/c for /g");
  EXPECT_EQ(story.decision().damage->outside_growth, mib(155)) << "half of what kills freed";
}

TEST(DamageLimit, AKillThatIsHeldBackIsDecidedAgainBeforeTheMemoryIsUsedUp) {
  Evidence evidence;
  evidence.limit = binary(mib(100).count);
  const auto again = [&](Bytes available) {
    evidence.available = available.count;
    return decided_again_at(evidence);
  };
  EXPECT_EQ(again(mib(99)), mib(25));
  EXPECT_EQ(again(mib(26)), mib(25));
  EXPECT_EQ(again(mib(25)), Bytes{mib(25).count / 2});
  EXPECT_EQ(again(mib(2)), mib(1));
}

TEST(DamageLimit, WhatHoldsAKillBackAtTheCrossingIsKnownBefore) {
  Config limited = config({hard(Signal::cgroup_memory_available, kThreshold)});
  Line line;
  line.signal = Signal::cgroup_memory_available;
  line.cgroup = id_of("/g");
  line.path = "/g";
  line.capacity = kLimit;
  line.floor_line = kLimit - kThreshold;
  const auto hold = [&](const std::vector<KillProgress>& kills, const WorkloadSample& sample) {
    const RankBy by{line.signal, std::nullopt, limited.compat, limited.ranking};
    const std::vector<Candidate> first{{sample, rank_key(sample, by), Exclusion::none}};
    return hold_at_crossing(limited, line, kills, second(2), first);
  };
  EXPECT_EQ(hold({}, greedy("a", mib(50))), std::nullopt);
  EXPECT_EQ(hold({}, calm("a")), Reason::within_requests);
  EXPECT_EQ(hold({killed("z", mib(300), mib(20), 1)}, greedy("a", mib(50))),
            Reason::kills_freed_little);
  EXPECT_EQ(hold({killed("z", mib(50), mib(50), 1)}, greedy("a", mib(50))), std::nullopt);
  limited.kill_limit.node = 1;
  EXPECT_EQ(hold({killed("z", mib(50), mib(50), 1)}, greedy("a", mib(50))),
            Reason::kill_limit_reached);
  EXPECT_EQ(hold_at_crossing(limited, line, {}, second(2), {}), std::nullopt);
}

TEST(DamageLimit, AStuckVictimIsNoEvidence) {
  Story story = group();
  story.now.kills = {killed("a", mib(300), Bytes{0}, 1, KillState::stuck)};
  EXPECT_EQ(evaluate(story, 1.1, mib(90), {greedy("a", mib(300)), greedy("b", mib(200))}),
            "kill /g/b for /g");
}

TEST(DamageLimit, MemoryOutsideOfTheCandidatesEndsTheSeries) {
  Story story = group();
  std::vector<WorkloadSample> others{greedy("b", mib(60)), greedy("c", mib(50))};
  others.insert(others.begin(), greedy("a", mib(70)));
  EXPECT_EQ(evaluate(story, 1, mib(90), others), "kill /g/a for /g");
  others.erase(others.begin());
  story.now.kills = {killed("a", mib(70), mib(70), 1)};
  EXPECT_EQ(evaluate(story, 1.1, mib(90), others), "none for /g: held-by-no-candidate");
  EXPECT_EQ(story.decision().damage->outside_growth, mib(70));
  EXPECT_EQ(story.decision().considered.size(), 2U);
  EXPECT_EQ(evaluate(story, 1.2, mib(5), others), "none for /g: held-by-no-candidate")
      << "a kill would make room for it, even now";
  EXPECT_EQ(evaluate(story, 11.1, mib(90), others), "kill /g/b for /g") << "kubelet's pace";
}

TEST(DamageLimit, CandidatesThatAreTooSmallTogetherLive) {
  Story story = group();
  story.now.kills = {killed("a", mib(70), mib(70), 1)};
  EXPECT_EQ(evaluate(story, 1.1, mib(40), {greedy("b", mib(30)), greedy("c", mib(20))}),
            "none for /g: candidates-too-small");
  EXPECT_EQ(evaluate(story, 1.2, mib(40), {greedy("b", mib(30)), greedy("c", mib(40))}),
            "kill /g/c for /g")
      << "both together are enough";
  EXPECT_EQ(evaluate(story, 1.3, mib(25), {greedy("b", mib(30)), greedy("c", mib(20))}),
            "kill /g/b for /g")
      << "the kernel would act next";
}

TEST(DamageLimit, NestedCandidatesCountOnce) {
  Story story = group();
  story.now.kills = {killed("z", mib(70), mib(70), 1)};
  const std::vector<WorkloadSample> nested{greedy("a", mib(40)), greedy("a/x", mib(40)),
                                           greedy("a-b", mib(5))};
  evaluate(story, 1.1, mib(40), nested);
  EXPECT_EQ(story.decision().damage->killable, mib(45));
}

TEST(DamageLimit, AWorkloadWithinItsRequestIsTheLastResort) {
  Story story = group();
  EXPECT_EQ(evaluate(story, 1, mib(90), {calm("a"), calm("b")}), "none for /g: within-requests");
  EXPECT_EQ(evaluate(story, 2, mib(26), {calm("a"), calm("b")}), "none for /g: within-requests");
  EXPECT_EQ(evaluate(story, 3, mib(25), {calm("a"), calm("b")}), "kill /g/a for /g");
  EXPECT_EQ(evaluate(story, 4, mib(90), {calm("a"), workload("/g/b", mib(10))}), "kill /g/b for /g")
      << "one without a request is no exception";
}

TEST(DamageLimit, OnANodeTheKernelsOwnEstimateCounts) {
  Story story(config({hard(Signal::memory_available, kThreshold)}));
  story.now.node = node(kLimit, mib(5));
  story.now.node.kernel_available = mib(300);
  story.now.workloads = {calm("a", mib(200))};
  EXPECT_EQ(story.evaluate(0.5), "kill /g/a for node") << "the first kill is kubelet's";
  story.now.kills = {killed("z", mib(70), mib(70), 0.6)};
  EXPECT_EQ(story.evaluate(1), "none for node: within-requests") << "active page cache";
  story.now.node.kernel_available = mib(25);
  EXPECT_EQ(story.evaluate(2), "kill /g/a for node");
  story.now.node.swap_free = mib(300);
  EXPECT_EQ(story.evaluate(3), "none for node: within-requests");
}

TEST(DamageLimit, TheRateIsLimitedPerNodeAndPerClass) {
  Threshold threshold = hard(Signal::memory_available, kThreshold);
  Config limited = config({threshold});
  limited.kill_limit = {std::chrono::seconds(10), 3, {1, 2, 3, 3}};
  Story story(limited);
  const auto done = [&](const std::string& path, double at) {
    KillProgress one = kill(path, Bytes{0}, KillState::released);
    one.started = second(at);
    one.expected = one.freed = mib(50);
    return one;
  };
  const std::string guaranteed = "/kubepods/pod1";
  const std::string burstable = "/kubepods/burstable/pod2";
  story.now.node = node(kLimit, mib(90));
  story.now.kills = {done("/kubepods/pod9", 1)};
  story.now.workloads = {workload(guaranteed, mib(50))};
  EXPECT_EQ(story.evaluate(2), "none for node: kill-limit-reached") << "one of its class";
  story.now.workloads = {workload(burstable, mib(50))};
  EXPECT_EQ(story.evaluate(3), "kill " + burstable + " for node");
  story.now.kills.push_back(done("/kubepods/burstable/pod8", 3));
  story.now.kills.push_back(done("/other", 4));
  EXPECT_EQ(story.evaluate(5), "none for node: kill-limit-reached") << "three on the node";
  EXPECT_EQ(next_deadline(story.config(), story.state()), second(11));
  EXPECT_EQ(story.evaluate(11), "kill " + burstable + " for node");
}

TEST(DamageLimit, TheClassFollowsFromThePath) {
  const std::vector<std::pair<std::string, WorkloadClass>> cases{
      {"/kubepods/pod1", WorkloadClass::guaranteed},
      {"/kubepods/burstable/pod1/c", WorkloadClass::burstable},
      {"/kubepods/besteffort/pod1", WorkloadClass::best_effort},
      {"/a.slice/a-kubepods.slice/a-kubepods-burstable.slice/a-kubepods-burstable-pod1.slice",
       WorkloadClass::burstable},
      {"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice",
       WorkloadClass::best_effort},
      {"/kubepods.slice/kubepods-pod1.slice", WorkloadClass::guaranteed},
      {"/burstable/pod1", WorkloadClass::other},
      {"/batch.slice/job", WorkloadClass::other},
      {"/", WorkloadClass::other},
  };
  for (const auto& [path, wanted] : cases) EXPECT_EQ(workload_class_at(path), wanted) << path;
}

}  // namespace
}  // namespace forestall::policy::damage_limit_test
