// SPDX-License-Identifier: Apache-2.0
// Random clusters: what must hold of every plan.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "rebalance/cluster_view.h"
#include "rebalance/default_evictor.h"
#include "world.h"

namespace forestall::rebalance::test {
namespace {

constexpr const char* kEverything = R"(
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
maxNoOfPodsToEvictPerNode: 4
maxNoOfPodsToEvictPerNamespace: 6
maxNoOfPodsToEvictTotal: 9
profiles:
- name: all
  pluginConfig:
  - {name: DefaultEvictor, args: {nodeFit: true, minReplicas: 2, priorityThreshold: {value: 50}}}
  - {name: LowNodeUtilization, args: {thresholds: {cpu: 40}, targetThresholds: {cpu: 60}}}
  - {name: HighNodeUtilization, args: {thresholds: {cpu: 20}}}
  - {name: RemoveDuplicates, args: {}}
  - {name: RemovePodsViolatingTopologySpreadConstraint, args: {}}
  - {name: RemovePodsViolatingInterPodAntiAffinity, args: {}}
  - {name: RemovePodsViolatingNodeTaints, args: {includePreferNoSchedule: true}}
  - {name: RemovePodsViolatingNodeAffinity, args: {nodeAffinityType: [
      preferredDuringSchedulingIgnoredDuringExecution,
      requiredDuringSchedulingIgnoredDuringExecution]}}
  - {name: RemovePodsHavingTooManyRestarts, args: {podRestartThreshold: 3}}
  - {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 7200}}
  - {name: RemoveFailedPods, args: {minPodLifetimeSeconds: 0}}
  plugins:
    balance:
      enabled: [LowNodeUtilization, HighNodeUtilization, RemoveDuplicates,
                RemovePodsViolatingTopologySpreadConstraint]
    deschedule:
      enabled: [RemovePodsViolatingInterPodAntiAffinity, RemovePodsViolatingNodeTaints,
                RemovePodsViolatingNodeAffinity, RemovePodsHavingTooManyRestarts,
                RemoveFailedPods, PodLifeTime]
)";

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  int upto(int most) { return std::uniform_int_distribution<int>(0, most)(engine_); }
  bool one_in(int count) { return upto(count - 1) == 0; }
  std::mt19937& engine() { return engine_; }

 private:
  std::mt19937 engine_;
};

std::string random_pod(Dice& dice, int index) {
  PodText text;
  text.cpu = fmt::format("{}m", dice.upto(600));
  text.memory = fmt::format("{}", dice.upto(800));
  text.space = dice.one_in(3) ? "a" : "b";
  text.owner = dice.one_in(8) ? "" : fmt::format("ReplicaSet/rs{}", dice.upto(5));
  if (dice.one_in(2)) text.priority = fmt::format("{}", dice.upto(60));
  text.phase = dice.one_in(6) ? "Failed" : "Running";
  text.metadata = fmt::format(R"(, "labels": {{"app": "app{}"}})", dice.upto(2));
  if (dice.one_in(3)) {
    text.metadata +=
        fmt::format(R"(, "creationTimestamp": "2026-01-01T{:02}:00:00Z")", dice.upto(13));
  } else {
    text.metadata += R"(, "creationTimestamp": "2026-01-01T11:00:00Z")";
  }
  if (dice.one_in(3)) {
    text.spec += R"(, "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "app1"}}}])";
  }
  if (dice.one_in(4)) {
    text.spec += R"(, "affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "app0"}}}]}})";
  } else if (dice.one_in(3)) {
    text.spec += R"(, "affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference":
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}}]}})";
  }
  if (dice.one_in(4)) text.spec += R"(, "tolerations": [{"operator": "Exists"}])";
  text.status = fmt::format(R"(, "containerStatuses": [{{"restartCount": {}}}])", dice.upto(4));
  return pod_text(fmt::format("p{}", index), fmt::format("n{}", dice.upto(4)), text);
}

std::vector<std::string> random_cluster(Dice& dice) {
  std::vector<std::string> objects;
  for (int i = 0; i <= 4; ++i) {
    NodeText text{.labels = fmt::format(R"("zone": "z{}")", dice.upto(2))};
    if (dice.one_in(5)) text.taints = R"({"key": "k", "effect": "NoSchedule"})";
    text.cordoned = dice.one_in(6);
    objects.push_back(node_text(fmt::format("n{}", i), text));
  }
  const int pods = 5 + dice.upto(30);
  for (int i = 0; i < pods; ++i) objects.push_back(random_pod(dice, i));
  objects.push_back(fmt::format(
      R"({{"kind": "PodDisruptionBudget", "metadata": {{"name": "x", "namespace": "a"}},
          "spec": {{"selector": {{"matchLabels": {{"app": "app1"}}}}}},
          "status": {{"disruptionsAllowed": {}}}}})",
      dice.upto(2)));
  return objects;
}

// By name and in order, whatever the indexes.
std::vector<std::string> story_of(const World& world) {
  std::vector<std::string> story;
  for (const PodEviction& each : world.plan.evictions) {
    const ClusterPod& pod = world.snapshot.pods[each.pod];
    story.push_back(fmt::format("{}/{} {} {} {}", pod.pod_namespace, pod.name, each.plugin.view(),
                                each.reason.view(), each.refused.view()));
  }
  return story;
}

void expect_limits_kept(const World& world) {
  std::map<std::string_view, int> by_node;
  std::map<std::string_view, int> by_namespace;
  std::set<std::size_t> pods;
  int total = 0;
  for (const PodEviction& each : world.plan.evictions) {
    if (!each.refused.empty()) continue;
    const ClusterPod& pod = world.snapshot.pods[each.pod];
    EXPECT_LE(++by_node[pod.node], 4);
    EXPECT_LE(++by_namespace[pod.pod_namespace], 6);
    EXPECT_LE(++total, 9);
    EXPECT_TRUE(pods.insert(each.pod).second) << "evicted twice: " << pod.name;
  }
}

// Pods only leave during a plan, so a pod that a filter of the whole cluster refuses, apart from
// nodeFit and minReplicas, is refused for the whole plan.
void expect_filters_kept(const World& world) {
  const ClusterView view(world.snapshot, world.policy.corrections);
  DefaultEvictorArgs args = world.policy.profiles[0].evictor;
  args.node_fit = false;
  const DefaultEvictor evictor(view, args);
  for (const PodEviction& each : world.plan.evictions) EXPECT_TRUE(evictor.filter(each.pod));
}

// What runs on each node once the pods have moved to their destinations.
void expect_room_at_the_destinations(const World& world) {
  std::map<std::size_t, std::int64_t> pods;
  std::map<std::size_t, Nanos> cpu;
  std::set<std::size_t> destinations;
  std::map<std::size_t, std::size_t> moved;
  for (const PodEviction& each : world.plan.evictions) {
    if (!each.destination) continue;
    EXPECT_TRUE(moved.emplace(each.pod, *each.destination).second) << "moved twice";
    EXPECT_NE(world.snapshot.nodes[*each.destination].name, world.snapshot.pods[each.pod].node);
    destinations.insert(*each.destination);
  }
  const ClusterView view(world.snapshot);
  for (std::size_t i = 0; i < world.snapshot.pods.size(); ++i) {
    const ClusterPod& pod = world.snapshot.pods[i];
    const auto node = moved.contains(i) ? moved.at(i) : view.find_node(pod.node);
    if (!node || !is_live(pod)) continue;
    ++pods[*node];
    cpu[*node] += pod.request.of(kCpu);
  }
  for (const std::size_t each : destinations) {
    const Node& node = world.snapshot.nodes[each];
    EXPECT_LE(nanos_of(kPods, pods[each]), node.allocatable.of(kPods)) << node.name;
    EXPECT_LE(cpu[each], node.allocatable.of(kCpu)) << node.name;
    EXPECT_FALSE(node.unschedulable);
  }
}

// What LowNodeUtilization moves stays below the target of its destination, 60 % of cpu, with what
// was booked there before. Pods that earlier plugins evicted are gone. Returns how many it moved.
std::size_t expect_targets_kept(const World& world) {
  constexpr int kTarget = 60;
  const ClusterView view(world.snapshot);
  std::map<std::size_t, Nanos> cpu;
  for (PodIndex i = 0; i < world.snapshot.pods.size(); ++i) {
    const auto node = view.place_of(i);
    if (node && view.summary(i).live) cpu[*node] += view.pod(i).request.of(kCpu);
  }
  std::size_t moves = 0;
  std::vector<PodIndex> leaving;
  std::string plugin;
  for (const PodEviction& each : world.plan.evictions) {
    if (!each.refused.empty()) continue;
    if (plugin != each.plugin.view()) {
      for (const PodIndex pod : leaving) {
        if (view.summary(pod).live) cpu[*view.place_of(pod)] -= view.pod(pod).request.of(kCpu);
      }
      leaving.clear();
      plugin = each.plugin.view();
    }
    leaving.push_back(each.pod);
    if (!each.destination) continue;
    cpu[*each.destination] += view.pod(each.pod).request.of(kCpu);
    if (plugin != "LowNodeUtilization") continue;
    ++moves;
    EXPECT_LE(cpu[*each.destination] * 100,
              world.snapshot.nodes[*each.destination].allocatable.of(kCpu) * kTarget);
  }
  return moves;
}

TEST(PlanProperty, WithAllCorrectionsThereIsRoomForEveryMovedPod) {
  std::size_t moves = 0;
  std::size_t balanced = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    std::vector<std::string> objects = random_cluster(dice);
    const std::string policy = "compat: fixed" + std::string(kEverything);
    const World world = plan_for(policy, objects);
    expect_limits_kept(world);
    expect_filters_kept(world);
    expect_room_at_the_destinations(world);
    balanced += expect_targets_kept(world);
    for (const PodEviction& each : world.plan.evictions) moves += each.destination ? 1 : 0;
    std::shuffle(objects.begin(), objects.end(), dice.engine());
    EXPECT_EQ(story_of(world), story_of(plan_for(policy, objects)));
    if (HasFailure()) return;
  }
  EXPECT_GT(moves, 100U);
  EXPECT_GT(balanced, 10U);
}

// The budget "x" selects the pods of app1 in the namespace a.
void expect_budget_kept(const World& world) {
  std::set<std::size_t> disrupted;
  for (const PodEviction& each : world.plan.evictions) {
    const ClusterPod& pod = world.snapshot.pods[each.pod];
    const bool selected = std::ranges::any_of(pod.labels, [](const auto& label) {
      return label.first == "app" && label.second == "app1";
    });
    if (each.refused.empty() && is_live(pod) && pod.pod_namespace == "a" && selected) {
      disrupted.insert(each.pod);
    }
  }
  EXPECT_LE(disrupted.size(),
            static_cast<std::size_t>(world.snapshot.budgets.at(0).disruptions_allowed));
}

// Plans of the same cluster, in which nothing leaves: what waits gets older and gets seats.
TEST(PlanProperty, LimitsHoldWhileSeatsAreHeld) {
  const std::string policy = "compat: fixed" + std::string(kEverything);
  std::size_t seats = 0;
  std::size_t used = 0;
  for (unsigned seed = 1; seed <= 330; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    std::vector<std::string> objects = random_cluster(dice);
    World world = plan_for(policy, objects);
    std::shuffle(objects.begin(), objects.end(), dice.engine());
    World shuffled = plan_for(policy, objects);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(world.plan.history);
      PlanHistory history{{}, world.plan.history->waiting};
      for (WaitingMove& each : history.waiting) {
        each.since_ns -= (kWaitingSeconds + dice.upto(1)) * 1'000'000'000;
      }
      world.plan = rebalance(world.policy, world.snapshot, history);
      shuffled.plan = rebalance(shuffled.policy, shuffled.snapshot, history);
      expect_limits_kept(world);
      expect_filters_kept(world);
      expect_room_at_the_destinations(world);
      expect_budget_kept(world);
      EXPECT_EQ(story_of(world), story_of(shuffled));
      EXPECT_EQ(world.plan.history->waiting, shuffled.plan.history->waiting);
      seats += world.plan.held_seats.size();
      for (const HeldSeat& seat : world.plan.held_seats) {
        used += static_cast<std::size_t>(std::ranges::count_if(
            world.plan.evictions,
            [&](const PodEviction& each) { return each.pod == seat.pod && each.refused.empty(); }));
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(seats, 100U);
  EXPECT_GT(used * 2, seats) << "most seats are used by the pod that they are held for";
}

TEST(PlanProperty, LimitsAndFiltersHoldAndTheOrderOfTheInputDoesNotMatter) {
  std::size_t evictions = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    std::vector<std::string> objects = random_cluster(dice);
    const World world = plan_for(kEverything, objects);
    expect_limits_kept(world);
    expect_filters_kept(world);
    evictions += world.plan.evictions.size();
    std::shuffle(objects.begin(), objects.end(), dice.engine());
    EXPECT_EQ(story_of(world), story_of(plan_for(kEverything, objects)));
    if (HasFailure()) return;
  }
  EXPECT_GT(evictions, 500U);
}

}  // namespace
}  // namespace forestall::rebalance::test
