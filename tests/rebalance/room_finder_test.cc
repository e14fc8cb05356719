// SPDX-License-Identifier: Apache-2.0
// The search for room against one that tries every node and counts every pod.
#include "rebalance/room_finder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <tuple>

#include "rebalance/fit_search.h"
#include "rebalance/node_fit.h"
#include "world.h"

namespace forestall::rebalance::test {
namespace {

class RoomDice {
 public:
  explicit RoomDice(unsigned seed) : engine_(seed) {}
  int upto(int most) { return std::uniform_int_distribution<int>(0, most)(engine_); }

 private:
  std::mt19937 engine_;
};

// More nodes than are tried one by one. Some have a taint, a label or a device.
std::vector<std::string> wide_cluster(RoomDice& dice, int nodes, int pods) {
  std::vector<std::string> objects;
  for (int i = 0; i < nodes; ++i) {
    NodeText text{.labels = fmt::format(R"("host": "n{}", "zone": "z{}", "disk": "{}")", i, i % 7,
                                        dice.upto(5) == 0 ? "ssd" : "hdd")};
    if (dice.upto(5) == 0) text.taints = R"({"key": "k", "effect": "NoSchedule"})";
    text.cordoned = dice.upto(9) == 0;
    text.pods = fmt::format("{}", 2 + dice.upto(6));
    objects.push_back(node_text(fmt::format("n{:03}", i), text));
  }
  for (int i = 0; i < pods; ++i) {
    PodText text{.cpu = fmt::format("{}m", 100 + 100 * dice.upto(8)),
                 .owner = fmt::format("ReplicaSet/rs{}", dice.upto(40))};
    text.metadata = fmt::format(R"(, "labels": {{"app": "app{}"}})", dice.upto(30));
    if (dice.upto(2) == 0) {
      text.spec = fmt::format(R"(, "affinity": {{"podAntiAffinity": {{
          "requiredDuringSchedulingIgnoredDuringExecution": [{{"topologyKey": "{}",
          "labelSelector": {{"matchLabels": {{"app": "app{}"}}}}}}]}}}})",
                              dice.upto(3) == 0 ? "zone" : "host", dice.upto(30));
    }
    if (dice.upto(1) == 0) {
      text.spec += fmt::format(R"(, "topologySpreadConstraints": [{{"topologyKey": "zone",
          "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "minDomains": {},
          "labelSelector": {{"matchLabels": {{"app": "app{}"}}}}}}])",
                               1 + dice.upto(8), dice.upto(30));
    }
    if (dice.upto(4) == 0) text.spec += R"(, "nodeSelector": {"disk": "ssd"})";
    if (dice.upto(3) == 0) text.spec += R"(, "tolerations": [{"operator": "Exists"}])";
    objects.push_back(
        pod_text(fmt::format("p{}", i), fmt::format("n{:03}", dice.upto(nodes - 1)), text));
  }
  return objects;
}

// The same with the plan of a policy that evicts old pods.
World wide_world(RoomDice& dice, int nodes, int pods) {
  return plan_for(policy_text("PodLifeTime", "{maxPodLifeTimeSeconds: 60}"),
                  wide_cluster(dice, nodes, pods));
}

bool repelled_by_some_pod(const ClusterView& view, PodIndex index, const Node& node) {
  const auto repels_here = [&](const ClusterPod& owner, const ClusterPod& other,
                               const Node& other_node) {
    if (!owner.placement) return false;
    return std::ranges::any_of(owner.placement->anti_affinity, [&](const PodAffinityTerm& term) {
      const auto value = find_label(node.labels, term.topology_key);
      return value && value == find_label(other_node.labels, term.topology_key) &&
             selects(owner, term, other);
    });
  };
  for (PodIndex i = 0; i < view.snapshot().pods.size(); ++i) {
    const auto place = view.place_of(i);
    if (i == index || !place || !is_live(view.pod(i))) continue;
    const Node& other_node = view.node(*place);
    if (repels_here(view.pod(index), view.pod(i), other_node)) return true;
    // The term is of the other pod, and selects this one.
    if (repels_here(view.pod(i), view.pod(index), other_node)) return true;
  }
  return false;
}

TEST(RoomFinder, FindsRoomIfAndOnlyIfSomeNodeHasIt) {
  int moved = 0;
  int refused = 0;
  for (unsigned seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    RoomDice dice(seed);
    const World world = wide_world(dice, 90, 320);
    ClusterView view(world.snapshot, Corrections::all());
    RoomFinder finder(view);
    const std::vector<NodeIndex> nodes = ready_nodes(view, {});
    for (int i = 0; i < 500; ++i) {
      const auto pod = static_cast<PodIndex>(dice.upto(319));
      if (dice.upto(9) == 0) view.remove(pod);
      if (view.place_of(pod) != view.find_node(view.pod(pod).node)) continue;
      const auto found = finder.find(pod, {.nodes = nodes});
      EXPECT_EQ(found.has_value(), fits_any_other(view, pod, nodes)) << view.pod(pod).name;
      if (found) {
        EXPECT_TRUE(fits(view, pod, *found));
        EXPECT_NE(view.node(*found).name, view.pod(pod).node);
        view.move(pod, *found);
      }
      (found ? moved : refused) += 1;
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(moved, 300);
  EXPECT_GT(refused, 50);
}

// One finder serves all plugins of a plan.
TEST(RoomFinder, TheNextPluginFindsNodesThatTheLastOneDidNotAccept) {
  RoomDice dice(3);
  const World world = wide_world(dice, 90, 120);
  const ClusterView view(world.snapshot, Corrections::all());
  const std::vector<NodeIndex> nodes = ready_nodes(view, {});
  const Rooms none{
      .nodes = nodes, .outlives_plugin = true, .accepts = [](NodeIndex) { return false; }};
  const Rooms all{.nodes = nodes, .outlives_plugin = true};
  RoomFinder finder(view);
  for (PodIndex i = 0; i < 120; ++i) EXPECT_FALSE(finder.find(i, none));
  finder.start_plugin();
  int found = 0;
  for (PodIndex i = 0; i < 120; ++i) {
    const auto room = finder.find(i, all);
    EXPECT_EQ(room, RoomFinder(view).find(i, all));
    found += room ? 1 : 0;
  }
  EXPECT_GT(found, 60);
}

// A list of another plugin may have the address of a former one.
TEST(RoomFinder, TheNextPluginHasItsOwnList) {
  RoomDice dice(4);
  const World world = wide_world(dice, 90, 120);
  const ClusterView view(world.snapshot, Corrections::all());
  std::vector<NodeIndex> nodes = ready_nodes(view, {});
  RoomFinder finder(view);
  (void)finder.find(0, {.nodes = nodes});
  std::ranges::transform(nodes, nodes.begin(), [&](NodeIndex) { return nodes.front(); });
  finder.start_plugin();
  for (PodIndex i = 0; i < 120; ++i) {
    const auto room = finder.find(i, {.nodes = nodes});
    EXPECT_TRUE(!room || *room == nodes.front());
  }
}

using RoomKey = std::tuple<std::int64_t, double, NodeIndex>;

double share_of(const ClusterView& view, NodeIndex node, std::string_view resource, Nanos more) {
  return static_cast<double>(view.requested_on(node, resource) + more) /
         static_cast<double>(view.node(node).allocatable.of(resource));
}

// Pods of the same first owner there, then the use with the pod, as RoomFinder::find() compares.
RoomKey key_of(const ClusterView& view, PodIndex pod, NodeIndex node) {
  std::int64_t siblings = 0;
  for (PodIndex i = 0; i < view.snapshot().pods.size(); ++i) {
    const bool is_there = view.place_of(i) == node && is_live(view.pod(i));
    if (is_there && view.pod(i).owners.front().uid == view.pod(pod).owners.front().uid) ++siblings;
  }
  const Amounts& request = view.pod(pod).request;
  return {siblings,
          std::max(share_of(view, node, kCpu, request.of(kCpu)),
                   share_of(view, node, kMemory, request.of(kMemory))),
          node};
}

// Every node that the pod fits, the least used one first; all pods are counted again.
std::vector<std::pair<double, NodeIndex>> all_rooms(const ClusterView& view, PodIndex pod,
                                                    const std::vector<NodeIndex>& nodes) {
  std::vector<std::pair<double, NodeIndex>> rooms;
  for (const NodeIndex each : nodes) {
    const Node& node = view.node(each);
    const bool fits_by_count =
        PodNeed(view, pod).fits(each) && !node.unschedulable && matches_node(view.pod(pod), node) &&
        tolerates_node(view.pod(pod), node) && !repelled_by_some_pod(view, pod, node) &&
        view.rules_of(pod).problem(each) == PlacementProblem::none;
    if (!fits_by_count || node.name == view.pod(pod).node) continue;
    const auto pods = static_cast<double>(view.live_pods_on(each)) /
                      static_cast<double>(counted(kPods, node.allocatable.of(kPods)));
    rooms.emplace_back(
        std::max({share_of(view, each, kCpu, 0), share_of(view, each, kMemory, 0), pods}), each);
  }
  std::ranges::sort(rooms);
  return rooms;
}

// In a cluster of which most nodes are full.
TEST(FitSearch, FindsWhatAComparisonWithAllNodesFinds) {
  RoomDice dice(7);
  const World world = wide_world(dice, 90, 320);
  for (const Corrections corrections : {Corrections::none(), Corrections::all()}) {
    ClusterView view(world.snapshot, corrections);
    const std::vector<NodeIndex> nodes = ready_nodes(view, {});
    Amounts all;
    all.at(kCpu) = nanos_of(kCpu, 1'000'000);
    for (const NodeIndex each : nodes) {
      if (each % 30 != 0) view.book(each, all);
    }
    FitSearch search(view, nodes);
    int fitting = 0;
    for (PodIndex i = 0; i < world.snapshot.pods.size(); ++i) {
      const bool fits = fits_any_other(view, i, nodes);
      ASSERT_EQ(search.fits_any_other(i), fits) << i;
      fitting += fits ? 1 : 0;
      if (i % 9 == 0) view.move(i, nodes[static_cast<std::size_t>(dice.upto(60))]);
    }
    EXPECT_GT(fitting, 20);
    EXPECT_LT(fitting, 300);
  }
}

TEST(NodesByUse, KeepsTheOrderWhileNodesMove) {
  RoomDice dice(5);
  std::set<NodesByUse::Entry> expected;
  for (NodeIndex i = 0; i < 700; ++i) expected.insert({double(dice.upto(50)), i});
  NodesByUse nodes({expected.rbegin(), expected.rend()});
  const auto in_order = [&] {
    std::vector<NodeIndex> order;
    EXPECT_TRUE(nodes.each([&](NodeIndex node) {
      order.push_back(node);
      return true;
    }));
    return order;
  };
  for (int i = 0; i < 5000; ++i) {
    const auto from = std::next(expected.begin(), dice.upto(699));
    // Many to one end, so that some chunks are divided and others become empty.
    const NodesByUse::Entry to{double(dice.upto(1) == 0 ? 60 : dice.upto(50)), from->node};
    nodes.move(*from, to);
    expected.erase(from);
    expected.insert(to);
  }
  std::vector<NodeIndex> wanted;
  for (const auto& [use, node] : expected) wanted.push_back(node);
  EXPECT_EQ(in_order(), wanted);
  int visited = 0;
  EXPECT_FALSE(nodes.each([&](NodeIndex) { return ++visited < 3; }));
  EXPECT_EQ(visited, 3);
}

// If an earlier search found few nodes with room, all of them are compared, otherwise 8.
TEST(RoomFinder, ChoosesTheBestOfTheLeastUsedNodesOrOfAllThatFit) {
  int chosen = 0;
  for (unsigned seed = 11; seed <= 13; ++seed) {
    SCOPED_TRACE(seed);
    RoomDice dice(seed);
    const World world = wide_world(dice, 90, 320);
    ClusterView view(world.snapshot, Corrections::all());
    RoomFinder finder(view);
    const std::vector<NodeIndex> nodes = ready_nodes(view, {});
    for (int i = 0; i < 150; ++i) {
      const auto pod = static_cast<PodIndex>(dice.upto(319));
      if (view.place_of(pod) != view.find_node(view.pod(pod).node)) continue;
      const auto rooms = all_rooms(view, pod, nodes);
      const auto found = finder.find(pod, {.nodes = nodes});
      ASSERT_EQ(found.has_value(), !rooms.empty());
      if (!found) continue;
      std::vector<RoomKey> keys;
      for (const auto& [use, node] : rooms) keys.push_back(key_of(view, pod, node));
      const auto eighth = keys.begin() + std::min<std::ptrdiff_t>(std::ssize(keys), 8);
      const RoomKey key = key_of(view, pod, *found);
      ASSERT_TRUE(key == *std::min_element(keys.begin(), eighth) ||
                  key == *std::ranges::min_element(keys))
          << view.node(*found).name;
      ++chosen;
      view.move(pod, *found);
    }
  }
  EXPECT_GT(chosen, 200);
}

TEST(PlacementRules, CountsThatFollowThePlanAreThoseOfANewCount) {
  int problems = 0;
  for (unsigned seed = 1; seed <= 12; ++seed) {
    RoomDice dice(seed);
    const World world = wide_world(dice, 20, 80);
    ClusterView view(world.snapshot, Corrections::all());
    for (int i = 0; i < 80; ++i) {
      const auto pod = static_cast<PodIndex>(dice.upto(79));
      PlacementRules counted_now;
      for (NodeIndex node = 0; node < 20; ++node) {
        const PodRules& followed = view.rules_of(pod);
        const PodRules& counted = counted_now.of(view, pod);
        const PlacementProblem found = followed.problem(node);
        EXPECT_EQ(found, counted.problem(node)) << view.pod(pod).name << " " << node;
        EXPECT_EQ(followed.repel(node), counted.repel(node));
        EXPECT_EQ(followed.admit(node), found == PlacementProblem::none && !followed.repel(node));
        problems += found == PlacementProblem::none ? 0 : 1;
      }
      if (HasFailure()) return;
      if (dice.upto(2) == 0) {
        view.remove(pod);
      } else {
        view.move(pod, static_cast<NodeIndex>(dice.upto(19)));
      }
    }
  }
  EXPECT_GT(problems, 200);
}

TEST(PlacementRules, AntiAffinityIsThatOfAllPodsAtTheirPlaces) {
  int kept_away = 0;
  for (unsigned seed = 1; seed <= 3; ++seed) {
    RoomDice dice(seed);
    const World world = wide_world(dice, 20, 60);
    ClusterView view(world.snapshot, Corrections::all());
    for (int i = 0; i < 60; ++i) {
      const auto pod = static_cast<PodIndex>(dice.upto(59));
      for (NodeIndex node = 0; node < 20; ++node) {
        const bool wanted = repelled_by_some_pod(view, pod, view.node(node));
        EXPECT_EQ(view.rules_of(pod).repel(node), wanted) << view.pod(pod).name << " " << node;
        kept_away += wanted ? 1 : 0;
      }
      if (HasFailure()) return;
      if (dice.upto(2) == 0) {
        view.remove(pod);
      } else {
        view.move(pod, static_cast<NodeIndex>(dice.upto(19)));
      }
    }
  }
  EXPECT_GT(kept_away, 200);
}

// Few nodes are tried one by one, many in the order of their use.
TEST(RoomFinder, SearchesFurtherNodesIfNoneOfTheFirstHasRoom) {
  for (const int nodes : {10, 300}) {
    SCOPED_TRACE(nodes);
    std::vector<std::string> objects;
    for (int i = 0; i < nodes; ++i) {
      objects.push_back(node_text(fmt::format("n{:03}", i), {.cpu = i % 2 == 0 ? "1" : "2"}));
    }
    objects.push_back(pod_text("small", "n000", {.cpu = "500m"}));
    objects.push_back(pod_text("large", "n000", {.cpu = "1500m"}));
    objects.push_back(pod_text("huge", "n000", {.cpu = "2500m"}));
    const World world =
        plan_for(policy_text("PodLifeTime", "{maxPodLifeTimeSeconds: 60}"), objects);
    const ClusterView view(world.snapshot);
    RoomFinder finder(view);
    std::vector<NodeIndex> first, further;
    for (NodeIndex i = 0; i < view.snapshot().nodes.size(); ++i) {
      (i % 2 == 0 ? first : further).push_back(i);
    }
    const Rooms rooms{.nodes = first, .further_nodes = further};
    const auto found = [&](std::string_view name) {
      for (PodIndex i = 0; i < view.snapshot().pods.size(); ++i) {
        if (view.pod(i).name == name) return finder.find(i, rooms);
      }
      ADD_FAILURE() << name;
      return std::optional<NodeIndex>();
    };
    EXPECT_EQ(found("small"), 2U) << "not its own node";
    EXPECT_EQ(found("large"), 1U);
    EXPECT_EQ(found("huge"), std::nullopt);
    EXPECT_EQ(found("small"), 2U);
  }
}

}  // namespace
}  // namespace forestall::rebalance::test
