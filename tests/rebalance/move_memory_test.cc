// SPDX-License-Identifier: Apache-2.0
// Moves that are remembered: loops end, and workloads are paced.
#include "rebalance/move_memory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "world.h"

namespace forestall::rebalance::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kSecond = 1'000'000'000;
const char* const kAnyAge = "{maxPodLifeTimeSeconds: 1}";

// Seconds before the plan.
PodText created(int seconds, const std::string& owner = "ReplicaSet/rs") {
  const int minute = seconds / 60;
  const int rest = seconds % 60;
  return {.owner = owner,
          .metadata = fmt::format(R"(, "creationTimestamp": "2026-01-01T11:{:02}:{:02}Z")",
                                  rest == 0 ? 60 - minute : 59 - minute, (60 - rest) % 60)};
}

Move move_of(const std::string& owner, const std::string& node, int seconds_ago) {
  return {owner, node, "default", "gone", kNow - seconds_ago * kSecond};
}

World paced(const std::string& pacing, const std::vector<std::string>& objects,
            const MoveHistory& history, const std::string& compat = "upstream") {
  World world = plan_for(
      policy_text("PodLifeTime", kAnyAge, "{}", "compat: " + compat + ", " + pacing), objects);
  world.plan = rebalance(world.policy, world.snapshot, {history, {}});
  return world;
}

std::vector<std::string> nodes() {
  return {node_text("n1"), node_text("n2")};
}

TEST(MoveMemory, APodThatCameAfterAMoveOfItsWorkloadStays) {
  const auto cluster = nodes() + std::vector{pod_text("new", "n1", created(299)),
                                             pod_text("old", "n1", created(302)),
                                             pod_text("other", "n1", created(299, "Job/j"))};
  const MoveHistory history{move_of("ReplicaSet/rs", "n2", 300)};
  const World world = paced("pacing: {memorySeconds: 600}, ", cluster, history);
  EXPECT_THAT(world.evicted(), ElementsAre("old", "other"));
  const auto refused = std::ranges::find_if(
      world.plan.evictions, [](const PodEviction& each) { return !each.refused.empty(); });
  ASSERT_NE(refused, world.plan.evictions.end());
  EXPECT_EQ(refused->refused,
            "a pod of its workload was moved 300 s ago, and this one was created since then");
  EXPECT_THAT(paced("pacing: {memorySeconds: 300}, ", cluster, history).evicted(),
              ElementsAre("old", "new", "other"));
}

TEST(MoveMemory, FixedRemembersForAnHourAndUpstreamNothing) {
  const auto cluster = nodes() + std::vector{pod_text("p", "n1", created(60))};
  EXPECT_THAT(paced("", cluster, {move_of("ReplicaSet/rs", "n2", 3599)}, "fixed").evicted(),
              IsEmpty());
  EXPECT_THAT(paced("", cluster, {move_of("ReplicaSet/rs", "n2", 3600)}, "fixed").evicted(),
              ElementsAre("p"));
  const World upstream = paced("", cluster, {move_of("ReplicaSet/rs", "n2", 60)});
  EXPECT_THAT(upstream.evicted(), ElementsAre("p"));
  EXPECT_EQ(upstream.plan.history, std::nullopt);
}

TEST(MoveMemory, WorkloadsArePaced) {
  const auto cluster = nodes() + pods_text("p", 4, "n1", created(1800));
  EXPECT_THAT(paced("pacing: {movesPerWorkload: 2}, ", cluster, {}).evicted(), testing::SizeIs(2));
  EXPECT_THAT(
      paced("pacing: {movesPerWorkload: 2}, ", cluster, {move_of("ReplicaSet/rs", "n2", 1000)})
          .evicted(),
      testing::SizeIs(1));
  EXPECT_THAT(paced("pacing: {secondsBetweenMoves: 100}, ", cluster, {}).evicted(),
              testing::SizeIs(1));
  EXPECT_THAT(
      paced("pacing: {secondsBetweenMoves: 100}, ", cluster, {move_of("ReplicaSet/rs", "n2", 99)})
          .evicted(),
      IsEmpty());
  EXPECT_THAT(
      plan_for(policy_text("PodLifeTime", kAnyAge, "{evictFailedBarePods: true}",
                           "pacing: {movesPerWorkload: 1}, "),
               nodes() + std::vector{pod_text("b1", "n1", {.owner = "", .phase = "Failed"}),
                                     pod_text("b2", "n1", {.owner = "", .phase = "Failed"})})
          .evicted(),
      ElementsAre("b1", "b2"));
}

TEST(MoveMemory, APlanPrintsWhatTheNextOneNeeds) {
  const auto cluster = nodes() + std::vector{pod_text("p", "n1", created(1800))};
  const World world = paced("pacing: {memorySeconds: 600}, ", cluster,
                            {move_of("Job/a", "n1", 599), move_of("Job/b", "n1", 600),
                             move_of("Job/c", "n1", -599), move_of("Job/d", "n1", -600)});
  ASSERT_TRUE(world.plan.history);
  EXPECT_THAT(world.plan.history->moves,
              ElementsAre(move_of("Job/a", "n1", 599), move_of("Job/c", "n1", -599),
                          Move{"ReplicaSet/rs", "n1", "default", "p", kNow}));
}

TEST(MoveMemory, AnEvictionInTheBackgroundIsNoNewMove) {
  const auto cluster = nodes() + std::vector{pod_text("p", "n1", created(1800))};
  World world = paced("pacing: {memorySeconds: 600}, ", cluster, {});
  ASSERT_EQ(world.plan.history.value().moves.size(), 1U);
  world.snapshot.pods[0].evicted_in_background = true;
  const MoveHistory history{move_of("ReplicaSet/rs", "n1", 300)};
  world.plan = rebalance(world.policy, world.snapshot, {history, {}});
  EXPECT_THAT(world.evicted(), ElementsAre("p"));
  EXPECT_EQ(world.plan.history.value().moves, history);
}

// Times of creation are whole seconds, and a plan is made within one.
TEST(MoveMemory, APodOfTheSecondOfTheMoveNeedNotComeAfterIt) {
  const PodText this_second{.metadata = R"(, "creationTimestamp": "2026-01-01T12:00:00Z")"};
  PodText other = this_second;
  other.owner = "Job/j";
  const auto cluster =
      nodes() + std::vector{pod_text("p", "n1", created(60)), pod_text("q", "n1", created(61)),
                            pod_text("twin", "n2", this_second), pod_text("other", "n2", other)};
  const World first = paced("pacing: {memorySeconds: 600}, ", cluster, {});
  ASSERT_TRUE(first.plan.history);
  ASSERT_EQ(first.plan.history->moves.size(), 2U);
  for (const Move& each : first.plan.history->moves) {
    EXPECT_THAT(each.existed, ElementsAre("uid-twin"));
  }
  // 200 s later; "late" may be the replacement.
  MoveHistory history{move_of("ReplicaSet/rs", "n1", 200)};
  history.front().existed = {"uid-twin"};
  const auto later = nodes() + std::vector{pod_text("twin", "n2", created(200)),
                                           pod_text("late", "n2", created(200))};
  EXPECT_THAT(paced("pacing: {memorySeconds: 600}, ", later, history).evicted(),
              ElementsAre("twin"));
}

// n2 is the less used one, but a pod of the owner left it.
TEST(MoveMemory, NoPodGoesBackToANodeThatItsWorkloadLeft) {
  PodText filler = created(1, "Job/j");
  filler.cpu = "500m";
  const auto cluster =
      std::vector{node_text("n1"), node_text("n2"), node_text("n3"),
                  pod_text("filler", "n3", filler), pod_text("p", "n1", created(1800))};
  const auto destination = [&](const MoveHistory& history) {
    const World world = paced("", cluster, history, "fixed");
    for (const PodEviction& each : world.plan.evictions) {
      if (world.snapshot.pods[each.pod].name == "p" && each.destination) {
        return std::string(world.snapshot.nodes[*each.destination].name);
      }
    }
    return std::string("none");
  };
  EXPECT_EQ(destination({}), "n2");
  EXPECT_EQ(destination({move_of("ReplicaSet/rs", "n2", 900)}), "n3");
}

// A node with room for one pod, which an earlier plan booked.
TEST(MoveMemory, RoomStaysBookedUntilTheReplacementIsReady) {
  const auto world = [](int seconds_ago, const std::string& replacement,
                        const std::string& compat = "fixed", const std::string& existed = "") {
    PodText mover = created(3000, "Job/j");
    mover.memory = "2000";
    std::vector<std::string> cluster = nodes() + std::vector{pod_text("p", "n1", mover)};
    if (!replacement.empty()) cluster.push_back(replacement);
    Move move = move_of("ReplicaSet/rs", "n1", seconds_ago);
    move.destination = "n2";
    move.memory = nanos_of(kMemory, 1500);
    if (!existed.empty()) move.existed = {existed};
    return paced("", cluster, {move}, compat);
  };
  const auto replacement = [](const std::string& node, const std::string& status) {
    PodText text = created(200);
    text.memory = "1";
    text.status = status;
    return pod_text("replacement", node, text);
  };
  const auto evicts = [](const World& of) {
    return std::ranges::count(of.evicted(), std::string("p")) == 1;
  };
  const std::string ready = R"(, "conditions": [{"type": "Ready", "status": "True"}])";
  EXPECT_FALSE(evicts(world(300, "")));
  EXPECT_TRUE(evicts(world(600, ""))) << "the time is over";
  EXPECT_FALSE(evicts(world(300, replacement("", "")))) << "it is not bound";
  EXPECT_TRUE(evicts(world(300, replacement("n1", "")))) << "it went elsewhere";
  EXPECT_TRUE(evicts(world(300, replacement("n2", ready))));
  EXPECT_FALSE(evicts(world(100, replacement("n2", ready)))) << "it was there before the move";
  EXPECT_TRUE(evicts(world(200, replacement("n2", ready))));
  EXPECT_FALSE(evicts(world(200, replacement("n2", ready), "fixed", "uid-replacement")))
      << "it was there before the move, in the same second";
  EXPECT_TRUE(evicts(world(300, "", "upstream")));
}

// Random cycles: evicted pods come back with another name where the plan sent them, or elsewhere.
TEST(MoveMemory, InFixedModeNoPodIsMovedTwiceWithinTheMemory) {
  constexpr int kCycles = 30;
  constexpr int kCycleSeconds = 400;
  std::size_t moves = 0;
  std::size_t refusals = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 dice(seed);
    struct Slot {
      std::string node;
      int generation = 0;
      std::int64_t created_ns = kNow - 86'400 * kSecond;
      std::optional<std::int64_t> moved_ns;
    };
    std::vector<Slot> slots(24);
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i].node = fmt::format("n{}", dice() % 3);
    MoveHistory history;
    World world = plan_for(
        policy_text("LowNodeUtilization", "{thresholds: {cpu: 40}, targetThresholds: {cpu: 50}}",
                    "{}", "compat: fixed, "),
        {node_text("n0"), node_text("n1"), node_text("n2")});
    for (int cycle = 0; cycle < kCycles; ++cycle) {
      const std::int64_t now = kNow + cycle * kCycleSeconds * kSecond;
      world.snapshot.taken_ns = now;
      world.snapshot.pods.clear();
      std::map<std::string, std::size_t> slot_of;
      for (std::size_t i = 0; i < slots.size(); ++i) {
        ClusterPod pod;
        const std::string name = fmt::format("p{}-{}", i, slots[i].generation);
        slot_of[name] = i;
        pod.pod_namespace = "a";
        pod.name = world.snapshot.texts->keep(name);
        pod.uid = pod.name;
        pod.node = world.snapshot.texts->keep(slots[i].node);
        pod.phase = PodPhase::running;
        pod.created_ns = slots[i].created_ns;
        pod.owners = {{"ReplicaSet", "rs", world.snapshot.texts->keep(fmt::format("rs{}", i % 6))}};
        pod.request.at(kCpu) = Nanos{50 + static_cast<int>(dice() % 200)} * kNanosPerMilli;
        world.snapshot.pods.push_back(std::move(pod));
      }
      sort(world.snapshot);
      const RebalancePlan plan = rebalance(world.policy, world.snapshot, {history, {}});
      for (const PodEviction& each : plan.evictions) {
        if (!each.refused.empty()) {
          refusals += each.refused.view().starts_with("a pod of its workload") ? 1 : 0;
          continue;
        }
        Slot& slot = slots[slot_of.at(std::string(world.snapshot.pods[each.pod].name))];
        if (slot.moved_ns) {
          EXPECT_GE(now - *slot.moved_ns, std::int64_t{kMemorySeconds} * kSecond);
        }
        slot = {fmt::format("n{}", dice() % 3), slot.generation + 1, now, now};
        ++moves;
      }
      history = plan.history.value().moves;
    }
  }
  EXPECT_GT(moves, 100U);
  EXPECT_GT(refusals, 20U);
}

}  // namespace
}  // namespace forestall::rebalance::test
