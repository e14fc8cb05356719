// SPDX-License-Identifier: Apache-2.0
// Why the agent had not acted: each answer from a scenario of real steps and the kill at its end.
#include "policy/inaction.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/policy/reported.h"
#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

OomKillEvent node_kill(double at, const std::string& path = "/pods/a") {
  OomKillEvent kill;
  kill.at = second(at);
  kill.victim = {100, 1};
  kill.cgroup = id_of(path);
  kill.path = path;
  kill.constraint = Constraint::none;
  return kill;
}

OomKillEvent memcg_kill(double at, const std::string& domain, const std::string& path) {
  OomKillEvent kill = node_kill(at, path);
  kill.constraint = Constraint::memcg;
  kill.domain = id_of(domain);
  kill.domain_path = domain;
  return kill;
}

std::string in_words(const InactionAnswer& answer) {
  std::string text(to_string(answer.inaction));
  if (answer.since_crossing) {
    const auto rounded = std::chrono::round<milliseconds>(*answer.since_crossing);
    text += " " + std::to_string(rounded.count()) + " ms";
  }
  return text;
}

// A node that is evaluated until the kernel kills.
class Watch : public Story {
 public:
  explicit Watch(Config config) : Story(std::move(config)) {
    now.workloads = {workload("/pods/a", mib(300)), workload("/pods/b", mib(200))};
  }
  Watch& with_available(Bytes bytes, double at) {
    now.node = node(gib(1), bytes);
    evaluate(at);
    return *this;
  }
  [[nodiscard]] std::string why(const OomKillEvent& kill,
                                std::optional<double> crossed = std::nullopt,
                                std::optional<double> away_since = std::nullopt) const {
    const auto time = [](std::optional<double> at) {
      return at ? std::optional(second(*at)) : std::nullopt;
    };
    return in_words(
        inaction(config(), state(), now, decision(), kill, {time(crossed), time(away_since)}));
  }
};

Config hard_node() {
  return config({hard(Signal::memory_available, mib(100))});
}

Config soft_node() {
  return config({soft(hard(Signal::memory_available, mib(100)), seconds(30))});
}

TEST(InactionTest, NothingIsWatched) {
  EXPECT_EQ(Watch(config({})).with_available(mib(1), 1).why(node_kill(2)), "not-watched");
  Watch node(hard_node());
  node.with_available(mib(50), 1);
  EXPECT_EQ(node.why(memcg_kill(2, "/elsewhere", "/elsewhere/x")), "not-watched")
      << "the node's threshold guards no cgroup's limit";
  Config disk = config({hard(Signal::nodefs_available, gib(1)), hard(Signal::pid_available, {9})});
  EXPECT_EQ(Watch(disk).with_available(mib(1), 1).why(node_kill(2)), "not-watched");
}

TEST(InactionTest, NeverCrossed) {
  Watch node(hard_node());
  node.with_available(mib(500), 1);
  EXPECT_EQ(node.why(node_kill(2)), "below-threshold");
  OomKillEvent elsewhere = node_kill(2);
  elsewhere.constraint = Constraint::cpuset;
  EXPECT_EQ(node.why(elsewhere), "below-threshold");
  EXPECT_EQ(node.why(node_kill(2), 2.5), "below-threshold") << "crossed after the kill";
  Watch unread(hard_node());
  unread.evaluate(1);
  EXPECT_EQ(unread.why(node_kill(2)), "unread");
}

TEST(InactionTest, ThresholdsOnFreeSwapCountForTheNode) {
  Watch without(config({hard(Signal::swap_available, mib(100))}));
  without.now.node.swap_total = without.now.node.swap_free = Bytes{0};
  without.evaluate(1);
  EXPECT_EQ(without.why(node_kill(2)), "unread");
  Watch low(config({hard(Signal::swap_available, mib(100))}));
  low.now.node.swap_total = gib(1);
  low.now.node.swap_free = mib(200);
  low.evaluate(1);
  EXPECT_EQ(low.why(node_kill(2)), "below-threshold");
}

TEST(InactionTest, TheKernelWasFirst) {
  Watch node(hard_node());
  node.with_available(mib(500), 1);
  EXPECT_EQ(node.why(node_kill(2.5), 2.498), "too-fast 2 ms");
  // The evaluation requests the workloads, and the kill comes before they are read.
  node.now.workloads.reset();
  node.with_available(mib(50), 3);
  ASSERT_EQ(reported(node.decision()), "inspect for node: workloads-unread");
  EXPECT_EQ(node.why(node_kill(3.004)), "too-fast 4 ms");
  EXPECT_EQ(node.why(node_kill(3.004), 3.002), "too-fast 4 ms") << "since the first crossing";
}

TEST(InactionTest, WithinItsGrace) {
  Watch node(soft_node());
  node.with_available(mib(500), 1);
  EXPECT_EQ(node.why(node_kill(3), 2), "in-grace 1000 ms");
  node.with_available(mib(50), 4);
  EXPECT_EQ(node.why(node_kill(9)), "in-grace 5000 ms");
  Config both = soft_node();
  both.thresholds.push_back(hard(Signal::memory_available, mib(20)));
  Watch stepped(both);
  stepped.with_available(mib(50), 4);
  EXPECT_EQ(stepped.why(node_kill(9)), "in-grace 5000 ms");
  EXPECT_EQ(stepped.why(node_kill(9), 8.999), "too-fast 1 ms") << "the hard one's line";
}

TEST(InactionTest, ADryRunOnlyDecides) {
  Config config = hard_node();
  config.dry_run = true;
  Watch node(config);
  node.with_available(mib(500), 1);
  EXPECT_EQ(node.why(node_kill(2)), "below-threshold");
  EXPECT_EQ(node.why(node_kill(2), 1.999), "too-fast 1 ms") << "it would not have been in time";
  node.with_available(mib(50), 3);
  ASSERT_EQ(reported(node.decision()), "kill /pods/a for node");
  EXPECT_EQ(node.why(node_kill(3.5)), "dry-run 500 ms") << "for any victim";
  Config soft = soft_node();
  soft.dry_run = true;
  EXPECT_EQ(Watch(soft).with_available(mib(50), 1).why(node_kill(2)), "in-grace 1000 ms");
}

TEST(InactionTest, NoCandidate) {
  Watch node(hard_node());
  node.now.workloads->clear();
  node.with_available(mib(50), 1);
  ASSERT_EQ(reported(node.decision()), "none for node: no-candidates");
  EXPECT_EQ(node.why(node_kill(3)), "no-victim 2000 ms");
  node.now.workloads = {with_protection(workload("/pods/a", mib(9)), Protection::declared)};
  node.with_available(mib(50), 2);
  ASSERT_EQ(reported(node.decision()), "none for node: all-protected");
  EXPECT_EQ(node.why(node_kill(3)), "no-victim 2000 ms");
  node.now.workloads = {workload("/pods/b", mib(9))};
  node.now.kills = {kill("/pods/b", mib(9), KillState::stuck)};
  node.with_available(mib(50), 2.5);
  EXPECT_EQ(node.why(node_kill(3)), "no-victim 2000 ms") << "the last one is stuck";
}

TEST(InactionTest, AFurtherKillWasHeldBack) {
  Watch node(hard_node());
  node.now.workloads = {workload("/pods/a", mib(60), 0, mib(70))};
  node.now.kills = {kill("/pods/z", Bytes{0}, KillState::released)};
  node.with_available(mib(50), 1);
  ASSERT_EQ(reported(node.decision()), "none for node: within-requests");
  EXPECT_EQ(node.why(node_kill(3)), "held-back 2000 ms");
}

TEST(InactionTest, OurKillWasUnderWay) {
  Watch node(hard_node());
  node.with_available(mib(50), 1);
  ASSERT_EQ(reported(node.decision()), "kill /pods/a for node");
  EXPECT_EQ(node.why(node_kill(1.002, "/pods/b")), "acting 2 ms") << "just chosen";
  node.now.kills = {kill("/pods/a", mib(300))};
  node.with_available(mib(50), 1.1);
  ASSERT_EQ(reported(node.decision()), "none for node: release-pending");
  EXPECT_EQ(node.why(node_kill(1.2, "/pods/b")), "acting 200 ms");
  node.now.kills = {kill("/pods/a", mib(300), KillState::released)};
  node.now.workloads.reset();
  node.with_available(mib(50), 1.3);
  EXPECT_EQ(node.why(node_kill(1.4, "/pods/b")), "too-fast 400 ms") << "it is over";
}

TEST(InactionTest, TheKernelChoseOurVictim) {
  Watch node(hard_node());
  node.with_available(mib(50), 1);
  ASSERT_EQ(reported(node.decision()), "kill /pods/a for node");
  EXPECT_EQ(node.why(node_kill(1.002)), "ours 2 ms") << "just chosen";
  EXPECT_EQ(node.why(node_kill(1.002, "/pods/a/container")), "ours 2 ms");
  for (const KillState state : {KillState::in_flight, KillState::terminating, KillState::stuck}) {
    node.now.kills = {kill("/pods/a", mib(1), state)};
    node.now.workloads.reset();
    node.with_available(mib(500), 2);
    EXPECT_EQ(node.why(node_kill(2.5)), "ours") << "crossed no more, still dying";
    EXPECT_EQ(node.why(memcg_kill(2.5, "/pods/a/container", "/pods/a/container")), "ours")
        << "watched or not";
    OomKillEvent nameless = node_kill(2.5);
    nameless.path.clear();
    EXPECT_EQ(node.why(nameless), "ours") << "by identity";
    nameless.cgroup = {};
    EXPECT_NE(node.why(nameless), "ours") << "an unknown cgroup has no workload";
  }
  for (const KillState state : {KillState::released, KillState::failed}) {
    node.now.kills = {kill("/pods/a", mib(1), state)};
    node.with_available(mib(500), 3);
    EXPECT_EQ(node.why(node_kill(3.5)), "below-threshold");
  }
}

// A watched cgroup, one inside it, the pods cgroup and the node, each with a threshold.
class Domains : public Watch {
 public:
  Domains()
      : Watch(policy::config({hard(Signal::memory_available, mib(100)),
                              hard(Signal::allocatable_memory_available, mib(50)),
                              hard(Signal::cgroup_memory_available, mib(10)),
                              soft(hard(Signal::cgroup_memory_available, mib(40)), seconds(30))})) {
    now.workloads = {workload("/watched/w", mib(90)), workload("/pods/a", mib(300))};
    now.node = node(gib(1), mib(500));
    now.pods = cgroup("/pods", mib(900), mib(500));
    now.watched = {cgroup("/watched", mib(200), mib(100), 2),
                   cgroup("/watched/w", mib(100), mib(50), 3)};
  }
};

TEST(InactionTest, TheDomainsOwnThresholdsCount) {
  Domains world;
  world.now.watched[0].usage = mib(195);  // 5 of 10 MiB are left
  world.now.watched[1].usage = mib(70);   // 30 of 40: in its grace period
  world.now.workloads.reset();
  world.evaluate(1);
  ASSERT_EQ(reported(world.decision()), "inspect for /watched: workloads-unread");
  EXPECT_EQ(world.why(memcg_kill(1.01, "/watched", "/watched/w")), "too-fast 10 ms");
  EXPECT_EQ(world.why(memcg_kill(1.01, "/watched/w", "/watched/w")), "in-grace 10 ms");
  EXPECT_EQ(world.why(memcg_kill(1.01, "/watched/w/x", "/watched/w/x")), "not-watched");
  EXPECT_EQ(world.why(memcg_kill(1.01, "/pods", "/pods/a")), "below-threshold");
  EXPECT_EQ(world.why(memcg_kill(1.01, "/pods/a", "/pods/a")), "not-watched");
  EXPECT_EQ(world.why(node_kill(1.01)), "below-threshold");
  world.now.pods->limit.reset();
  world.evaluate(2);
  EXPECT_EQ(world.why(memcg_kill(2.01, "/pods", "/pods/a")), "unread");
  EXPECT_EQ(world.why(memcg_kill(2.01, "/pods", "/pods/a"), 2.005), "too-fast 5 ms")
      << "the kernel noticed it where the agent could not";
  OomKillEvent by_path = memcg_kill(2.01, "/watched", "/watched/w");
  by_path.domain = {};
  EXPECT_EQ(world.why(by_path), "too-fast 1010 ms");
}

// Evidence of own limits lists only those that are near.
TEST(InactionTest, OwnLimitsGuardTheirVictims) {
  for (const Response response : {Response::evict, Response::warn, Response::slow}) {
    Threshold threshold = hard(Signal::cgroup_memory_available, mib(10));
    threshold.own_limits_of = WorkloadClass::other;
    threshold.response = response;
    const bool evicts = response == Response::evict;
    Watch world(policy::config({threshold}));
    world.now.watched = {cgroup("/pods/a", mib(100), mib(50))};
    world.evaluate(1);
    EXPECT_EQ(world.why(memcg_kill(1.01, "/pods/a", "/pods/a")),
              evicts ? "below-threshold" : "warn-only");
    EXPECT_EQ(world.why(memcg_kill(1.01, "/pods/a", "/pods/a"), 1.005),
              evicts ? "too-fast 5 ms" : "warn-only");
    EXPECT_EQ(world.why(memcg_kill(1.01, "/elsewhere", "/elsewhere")), "not-watched");
    if (evicts) continue;
    world.now.watched = {cgroup("/pods/a", mib(100), mib(5))};
    world.evaluate(2);
    EXPECT_EQ(world.why(memcg_kill(2.515, "/pods/a", "/pods/a")), "warn-only 515 ms")
        << "the agent warned of it";
  }
}

TEST(InactionTest, OnlyKillsThatHelpTheDomainCount) {
  Domains world;
  world.now.kills = {kill("/pods/a", mib(300))};
  world.evaluate(1);
  EXPECT_EQ(world.why(memcg_kill(2, "/watched", "/watched/w")), "below-threshold");
  EXPECT_EQ(world.why(memcg_kill(2, "/pods", "/pods/b")), "acting");
  EXPECT_EQ(world.why(node_kill(2, "/watched/w")), "acting");
  world.now.kills = {kill("/watched", mib(300))};
  world.evaluate(3);
  EXPECT_EQ(world.why(memcg_kill(4, "/watched/w", "/elsewhere")), "acting")
      << "a victim around the domain";
}

TEST(InactionTest, AnUnknownDomainIsAnyThatHoldsTheVictim) {
  Domains world;
  world.now.watched[0].usage = mib(195);
  world.now.workloads.reset();
  world.evaluate(1);
  OomKillEvent dropped = node_kill(2, "/watched/w");
  dropped.constraint.reset();
  EXPECT_EQ(world.why(dropped), "too-fast 1000 ms");
  dropped.path = "/pods/a";
  dropped.cgroup = id_of("/pods/a");
  EXPECT_EQ(world.why(dropped), "below-threshold");
  dropped.constraint = Constraint::memcg;
  EXPECT_EQ(world.why(dropped), "below-threshold") << "the pods cgroup's";
  dropped.path.clear();
  EXPECT_EQ(world.why(dropped), "not-watched");
  dropped.constraint.reset();
  EXPECT_EQ(world.why(dropped), "below-threshold") << "the node's";
}

// Stopped, frozen or without CPU: the kernel was not faster than a running agent.
TEST(InactionTest, TheAgentDidNotRun) {
  Watch node(hard_node());
  node.with_available(mib(500), 1);
  EXPECT_EQ(node.why(node_kill(6), 2, 2), "stopped 4000 ms");
  EXPECT_EQ(node.why(node_kill(6), std::nullopt, 3), "stopped") << "no source reported a crossing";
  EXPECT_EQ(node.why(node_kill(6), 2, 7), "too-fast 4000 ms") << "away after the kill";
  EXPECT_EQ(node.why(memcg_kill(6, "/x", "/x"), 2, 2), "not-watched") << "it would not have acted";
  Watch soft(soft_node());
  soft.with_available(mib(50), 1);
  EXPECT_EQ(soft.why(node_kill(60), std::nullopt, 31), "stopped 59000 ms") << "the grace was over";
  node.now.workloads.reset();
  node.with_available(mib(50), 3);
  ASSERT_EQ(reported(node.decision()), "inspect for node: workloads-unread");
  EXPECT_EQ(node.why(node_kill(5), std::nullopt, 4), "stopped 2000 ms");
  node.now.workloads.emplace();
  node.with_available(mib(50), 6);
  ASSERT_EQ(reported(node.decision()), "none for node: no-candidates");
  EXPECT_EQ(node.why(node_kill(8), std::nullopt, 7), "no-victim 5000 ms") << "nothing to do anyway";
}

TEST(InactionTest, TimesAreNeverNegative) {
  Watch node(soft_node());
  node.with_available(mib(50), 4);
  EXPECT_EQ(node.why(node_kill(3)), "in-grace 0 ms");
}

}  // namespace
}  // namespace forestall::policy
