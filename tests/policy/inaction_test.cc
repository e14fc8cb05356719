// SPDX-License-Identifier: Apache-2.0
// Why the agent had not acted: each answer from a scenario of real steps and the kill at its end.
#include "policy/inaction.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/policy/told.h"
#include "tests/policy/world.h"

namespace forestall::policy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

OomKillSighting node_kill(double at, const std::string& path = "/pods/a") {
  OomKillSighting kill;
  kill.at = second(at);
  kill.victim = {100, 1};
  kill.cgroup = id_of(path);
  kill.path = path;
  kill.constraint = Constraint::none;
  return kill;
}

OomKillSighting memcg_kill(double at, const std::string& domain, const std::string& path) {
  OomKillSighting kill = node_kill(at, path);
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
    look(at);
    return *this;
  }
  [[nodiscard]] std::string why(const OomKillSighting& kill,
                                std::optional<double> crossed = std::nullopt) const {
    return in_words(inaction(config(), state(), now, decision(), kill,
                             crossed ? std::optional(second(*crossed)) : std::nullopt));
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
  OomKillSighting elsewhere = node_kill(2);
  elsewhere.constraint = Constraint::cpuset;
  EXPECT_EQ(node.why(elsewhere), "below-threshold");
  EXPECT_EQ(node.why(node_kill(2), 2.5), "below-threshold") << "crossed after the kill";
  Watch unread(hard_node());
  unread.look(1);
  EXPECT_EQ(unread.why(node_kill(2)), "unread");
}

TEST(InactionTest, ThresholdsOnFreeSwapCountForTheNode) {
  Watch without(config({hard(Signal::swap_available, mib(100))}));
  without.now.node.swap_total = without.now.node.swap_free = Bytes{0};
  without.look(1);
  EXPECT_EQ(without.why(node_kill(2)), "unread");
  Watch low(config({hard(Signal::swap_available, mib(100))}));
  low.now.node.swap_total = gib(1);
  low.now.node.swap_free = mib(200);
  low.look(1);
  EXPECT_EQ(low.why(node_kill(2)), "below-threshold");
}

TEST(InactionTest, TheKernelWasFirst) {
  Watch node(hard_node());
  node.with_available(mib(500), 1);
  EXPECT_EQ(node.why(node_kill(2.5), 2.498), "too-fast 2 ms");
  // The evaluation requests the workloads, and the kill comes before they are read.
  node.now.workloads.reset();
  node.with_available(mib(50), 3);
  ASSERT_EQ(told(node.decision()), "inspect for node: workloads-unread");
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
  ASSERT_EQ(told(node.decision()), "kill /pods/a for node");
  EXPECT_EQ(node.why(node_kill(3.5)), "dry-run 500 ms") << "for any victim";
  Config soft = soft_node();
  soft.dry_run = true;
  EXPECT_EQ(Watch(soft).with_available(mib(50), 1).why(node_kill(2)), "in-grace 1000 ms");
}

TEST(InactionTest, NoCandidate) {
  Watch node(hard_node());
  node.now.workloads->clear();
  node.with_available(mib(50), 1);
  ASSERT_EQ(told(node.decision()), "none for node: no-candidates");
  EXPECT_EQ(node.why(node_kill(3)), "nobody-to-kill 2000 ms");
  node.now.workloads = {with_protection(workload("/pods/a", mib(9)), Protection::declared)};
  node.with_available(mib(50), 2);
  ASSERT_EQ(told(node.decision()), "none for node: all-protected");
  EXPECT_EQ(node.why(node_kill(3)), "nobody-to-kill 2000 ms");
  node.now.workloads = {workload("/pods/b", mib(9))};
  node.now.kills = {kill("/pods/b", mib(9), KillState::stuck)};
  node.with_available(mib(50), 2.5);
  EXPECT_EQ(node.why(node_kill(3)), "nobody-to-kill 2000 ms") << "the last one is stuck";
}

TEST(InactionTest, OurKillWasUnderWay) {
  Watch node(hard_node());
  node.with_available(mib(50), 1);
  ASSERT_EQ(told(node.decision()), "kill /pods/a for node");
  EXPECT_EQ(node.why(node_kill(1.002, "/pods/b")), "acting 2 ms") << "just chosen";
  node.now.kills = {kill("/pods/a", mib(300))};
  node.with_available(mib(50), 1.1);
  ASSERT_EQ(told(node.decision()), "none for node: release-pending");
  EXPECT_EQ(node.why(node_kill(1.2, "/pods/b")), "acting 200 ms");
  node.now.kills = {kill("/pods/a", mib(300), KillState::released)};
  node.now.workloads.reset();
  node.with_available(mib(50), 1.3);
  EXPECT_EQ(node.why(node_kill(1.4, "/pods/b")), "too-fast 400 ms") << "it is over";
}

TEST(InactionTest, TheKernelChoseOurVictim) {
  Watch node(hard_node());
  node.with_available(mib(50), 1);
  ASSERT_EQ(told(node.decision()), "kill /pods/a for node");
  EXPECT_EQ(node.why(node_kill(1.002)), "ours 2 ms") << "just chosen";
  EXPECT_EQ(node.why(node_kill(1.002, "/pods/a/container")), "ours 2 ms");
  for (const KillState state : {KillState::in_flight, KillState::terminating, KillState::stuck}) {
    node.now.kills = {kill("/pods/a", mib(1), state)};
    node.now.workloads.reset();
    node.with_available(mib(500), 2);
    EXPECT_EQ(node.why(node_kill(2.5)), "ours") << "crossed no more, still dying";
    EXPECT_EQ(node.why(memcg_kill(2.5, "/pods/a/container", "/pods/a/container")), "ours")
        << "watched or not";
    OomKillSighting nameless = node_kill(2.5);
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
  world.look(1);
  ASSERT_EQ(told(world.decision()), "inspect for /watched: workloads-unread");
  EXPECT_EQ(world.why(memcg_kill(1.01, "/watched", "/watched/w")), "too-fast 10 ms");
  EXPECT_EQ(world.why(memcg_kill(1.01, "/watched/w", "/watched/w")), "in-grace 10 ms");
  EXPECT_EQ(world.why(memcg_kill(1.01, "/watched/w/x", "/watched/w/x")), "not-watched");
  EXPECT_EQ(world.why(memcg_kill(1.01, "/pods", "/pods/a")), "below-threshold");
  EXPECT_EQ(world.why(memcg_kill(1.01, "/pods/a", "/pods/a")), "not-watched");
  EXPECT_EQ(world.why(node_kill(1.01)), "below-threshold");
  world.now.pods->limit.reset();
  world.look(2);
  EXPECT_EQ(world.why(memcg_kill(2.01, "/pods", "/pods/a")), "unread");
  EXPECT_EQ(world.why(memcg_kill(2.01, "/pods", "/pods/a"), 2.005), "too-fast 5 ms")
      << "the kernel saw it where we could not";
  OomKillSighting by_path = memcg_kill(2.01, "/watched", "/watched/w");
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
    world.look(1);
    EXPECT_EQ(world.why(memcg_kill(1.01, "/pods/a", "/pods/a")),
              evicts ? "below-threshold" : "not-watched");
    EXPECT_EQ(world.why(memcg_kill(1.01, "/pods/a", "/pods/a"), 1.005),
              evicts ? "too-fast 5 ms" : "not-watched");
  }
}

TEST(InactionTest, OnlyKillsThatHelpTheDomainCount) {
  Domains world;
  world.now.kills = {kill("/pods/a", mib(300))};
  world.look(1);
  EXPECT_EQ(world.why(memcg_kill(2, "/watched", "/watched/w")), "below-threshold");
  EXPECT_EQ(world.why(memcg_kill(2, "/pods", "/pods/b")), "acting");
  EXPECT_EQ(world.why(node_kill(2, "/watched/w")), "acting");
  world.now.kills = {kill("/watched", mib(300))};
  world.look(3);
  EXPECT_EQ(world.why(memcg_kill(4, "/watched/w", "/elsewhere")), "acting")
      << "a victim around the domain";
}

TEST(InactionTest, AnUnknownDomainIsAnyThatHoldsTheVictim) {
  Domains world;
  world.now.watched[0].usage = mib(195);
  world.now.workloads.reset();
  world.look(1);
  OomKillSighting untold = node_kill(2, "/watched/w");
  untold.constraint.reset();
  EXPECT_EQ(world.why(untold), "too-fast 1000 ms");
  untold.path = "/pods/a";
  untold.cgroup = id_of("/pods/a");
  EXPECT_EQ(world.why(untold), "below-threshold");
  untold.constraint = Constraint::memcg;
  EXPECT_EQ(world.why(untold), "below-threshold") << "the pods cgroup's";
  untold.path.clear();
  EXPECT_EQ(world.why(untold), "not-watched");
  untold.constraint.reset();
  EXPECT_EQ(world.why(untold), "below-threshold") << "the node's";
}

TEST(InactionTest, TimesAreNeverNegative) {
  Watch node(soft_node());
  node.with_available(mib(50), 4);
  EXPECT_EQ(node.why(node_kill(3)), "in-grace 0 ms");
}

}  // namespace
}  // namespace forestall::policy
