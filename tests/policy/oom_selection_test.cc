// SPDX-License-Identifier: Apache-2.0
// The OOM killer's rules one by one.
#include "policy/oom_selection.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/policy/oom_world.h"

namespace forestall::policy {
namespace {

constexpr auto kPids = [](const OomScene& scene, const std::vector<std::size_t>& indices) {
  std::string text;
  for (const std::size_t i : indices) text += " " + std::to_string(scene.processes[i].id.pid);
  return text;
};

// "kills 12 before 10, /a goes with 13 14".
std::string reported(const OomScene& scene, const OomPrediction& prediction) {
  const auto pid = [&](const OomChoice& choice) {
    return std::to_string(scene.processes[choice.process].id.pid);
  };
  std::string text(to_string(prediction.verdict));
  if (prediction.victim) text += " " + pid(*prediction.victim);
  if (prediction.runner_up) text += " before " + pid(*prediction.runner_up);
  if (prediction.tied) text += " (tied)";
  if (prediction.group) {
    for (const OomCgroup& cgroup : scene.cgroups) {
      if (cgroup.id == *prediction.group) text += ", " + cgroup.path + " goes";
    }
  }
  if (!prediction.also.empty()) text += ", with" + kPids(scene, prediction.also);
  return text;
}

std::string reported(const OomScene& scene) {
  return reported(scene, predict(scene));
}

std::string order(const OomScene& scene) {
  std::vector<std::size_t> indices;
  for (const OomChoice& one : oom_order(scene)) indices.push_back(one.process);
  return kPids(scene, indices);
}

TEST(OomSelectionTest, TheMostPointsGo) {
  const OomScene scene =
      node_scene({process(10, 500), adjusted(process(11, 400), 1), process(12, 300)});
  EXPECT_EQ(reported(scene), "kills 11 before 10");
  EXPECT_EQ(predict(scene).victim, (OomChoice{1, 1400}));
  EXPECT_EQ(predict(scene).runner_up, (OomChoice{0, 500}));
  EXPECT_EQ(order(scene), " 11 10 12");
  EXPECT_TRUE(tied_for_first(scene).empty());
}

TEST(OomSelectionTest, PointsBelowZeroAreAsGoodAsOthers) {
  const OomScene scene =
      node_scene({adjusted(process(10, 1), -998), adjusted(process(11, 900), -998),
                  adjusted(process(12, 5), -999)});
  EXPECT_EQ(reported(scene), "kills 11 before 10");
  EXPECT_EQ(predict(scene).victim->points, 900 - 998'000);
}

TEST(OomSelectionTest, NoCandidateIsLeft) {
  EXPECT_EQ(reported(node_scene({})), "no-victim");
  EXPECT_EQ(reported(node_scene({adjusted(process(10, 9), -1000),
                                 unkillable(process(1, 9), Unkillable::init),
                                 unkillable(process(2, 0), Unkillable::kernel_thread),
                                 unkillable(process(11, 0), Unkillable::no_memory),
                                 unkillable(process(12, 9), Unkillable::reaped),
                                 unkillable(process(13, 9), Unkillable::in_vfork)})),
            "no-victim");
  EXPECT_EQ(reported(node_scene({process(10, 9)})), "kills 10");
}

TEST(OomSelectionTest, OfEqualsTheLastInTheWalkIsChosen) {
  OomScene scene = node_scene({process(12, 7), process(10, 7), process(11, 7), process(13, 6)});
  EXPECT_EQ(reported(scene), "kills 12 before 11 (tied)");
  EXPECT_EQ(tied_for_first(scene), (std::vector<std::size_t>{0, 1, 2}));
  scene.processes[1].order = 99;
  EXPECT_EQ(reported(scene), "kills 10 before 12 (tied)") << "fork order, not pids";
  for (ProcessSample& one : scene.processes) one.order = 5;
  EXPECT_EQ(reported(scene), "kills 12 before 11 (tied)") << "pids if the order is unknown";
  scene.processes[3].memory.anon = 8;
  EXPECT_EQ(reported(scene), "kills 13 before 12");
  EXPECT_TRUE(tied_for_first(scene).empty());
}

TEST(OomSelectionTest, AMemcgIsWalkedByItsTree) {
  // By forks, 12 would be last.
  OomScene scene =
      memcg_scene({process(12, 7, "/a"), process(10, 7, "/a/c"), process(11, 7, "/a/b"),
                   process(9, 7, "/a/c"), process(30, 900, "/other"), process(31, 900, "/")},
                  {"/a", "/a/b", "/a/c"});
  EXPECT_EQ(reported(scene), "kills 10 before 9 (tied)") << "others are not of the domain";
  EXPECT_EQ(tied_for_first(scene), (std::vector<std::size_t>{1, 3})) << "only the last cgroup's";
  EXPECT_EQ(order(scene), " 10 9 11 12");
  scene.cgroups = cgroups({"/a", "/a/c", "/a/b"});
  EXPECT_EQ(reported(scene), "kills 11 before 10 (tied)") << "siblings as they were created";
  EXPECT_TRUE(tied_for_first(scene).empty()) << "the tree has decided";
}

TEST(OomSelectionTest, ADyingVictimStopsTheWalk) {
  for (const pid_t pid : {5, 50}) {  // before and after all others in the walk
    EXPECT_EQ(reported(node_scene({process(10, 9), chosen_before(process(pid, 1), false)})),
              "waits");
    EXPECT_EQ(reported(node_scene({process(10, 9), chosen_before(process(pid, 1), true)})),
              "kills 10");
  }
  EXPECT_EQ(reported(node_scene({chosen_before(adjusted(process(10, 1), -1000), false)})), "waits")
      << "whatever its points";
  EXPECT_EQ(
      reported(node_scene(
          {process(10, 9), chosen_before(unkillable(process(1, 9), Unkillable::init), false)})),
      "kills 10")
      << "init is passed over first";
  EXPECT_EQ(reported(memcg_scene({process(10, 9, "/a"), chosen_before(process(11, 9, "/b"), false)},
                                 {"/a"})),
            "kills 10")
      << "not of this domain";
  const OomScene scene = node_scene({process(10, 9), chosen_before(process(11, 99), false)});
  EXPECT_EQ(order(scene), " 10") << "candidates are still listed";
  EXPECT_TRUE(tied_for_first(scene).empty());
}

TEST(OomSelectionTest, OomOriginIsChosenFirst) {
  ProcessSample origin = adjusted(process(10, 1), -1000);
  origin.oom_origin = true;
  ProcessSample other = adjusted(process(11, 1), -1000);
  other.oom_origin = true;
  OomScene scene = node_scene({other, process(12, 999), origin});
  EXPECT_EQ(reported(scene), "kills 11 before 10 (tied)") << "adjusted or not";
  EXPECT_EQ(predict(scene).victim->points, std::numeric_limits<Pages>::max());
  scene.processes[0] = chosen_before(other, true);
  EXPECT_EQ(reported(scene), "kills 10 before 12") << "but not twice";
  scene.processes[2].unkillable = Unkillable::init;
  EXPECT_EQ(reported(scene), "kills 12");
}

TEST(OomSelectionTest, PanicsAsSet) {
  struct Case {
    int setting;
    Constraint constraint;
    std::string reported;
  };
  const std::vector<Case> cases{
      {0, Constraint::none, "kills 10"},
      {1, Constraint::none, "panics"},
      {2, Constraint::none, "panics"},
      {1, Constraint::cpuset, "kills 10"},
      {1, Constraint::memory_policy, "kills 10"},
      {1, Constraint::memcg, "kills 10"},
      {2, Constraint::cpuset, "panics"},
      {2, Constraint::memory_policy, "panics"},
      {2, Constraint::memcg, "panics"},
  };
  for (const Case& one : cases) {
    OomScene scene = node_scene({process(10, 9)});
    scene.settings.panic_on_oom = one.setting;
    scene.domain.constraint = one.constraint;
    EXPECT_EQ(reported(scene), one.reported) << one.setting << " " << to_string(one.constraint);
    EXPECT_EQ(order(scene), " 10") << "candidates are still listed";
  }
}

TEST(OomSelectionTest, ADisabledMemcgChoosesNothing) {
  OomScene scene = memcg_scene({dying(process(10, 9, "/a"))}, {"/a"});
  scene.domain.kill_disabled = true;
  scene.settings.panic_on_oom = 2;
  scene.allocating = 10;
  EXPECT_EQ(reported(scene), "disabled") << "before everything else";
  scene.domain.constraint = Constraint::none;
  EXPECT_EQ(reported(scene), "kills-allocating 10") << "the node has no such setting";
}

TEST(OomSelectionTest, ADyingAllocatingProcessIsChosen) {
  OomScene scene = node_scene({dying(process(10, 1)), process(11, 9)});
  EXPECT_EQ(reported(scene), "kills 11 before 10") << "the allocating process is unknown";
  scene.allocating = 10;
  EXPECT_EQ(reported(scene), "kills-allocating 10 before 11");
  scene.settings.panic_on_oom = 2;
  EXPECT_EQ(reported(scene), "kills-allocating 10") << "without it the kernel would panic";
  scene.settings.panic_on_oom = 0;
  scene.processes[0] = adjusted(scene.processes[0], -1000);
  EXPECT_EQ(reported(scene), "kills-allocating 10 before 11") << "whatever its adjustment";
  EXPECT_EQ(predict(scene).victim->points, std::numeric_limits<Pages>::min());
  scene.processes.push_back(sharing(process(12, 0), scene.processes[0]));
  EXPECT_EQ(reported(scene), "kills 11 before 12") << "a sharer of its mm is not dying";
  scene.processes[2] = dying(scene.processes[2]);
  EXPECT_EQ(reported(scene), "kills-allocating 10 before 11");
  scene.processes[0].oom_victim = true;
  scene.processes[1] = chosen_before(scene.processes[1], false);
  EXPECT_EQ(reported(scene), "kills-allocating 10") << "without it the walk would wait for 11";
  scene.allocating = 77;
  EXPECT_EQ(reported(scene), "waits") << "the allocating process is not in the scene";
}

TEST(OomSelectionTest, KillsTheAllocatingProcessIfConfigured) {
  OomScene scene = node_scene({process(10, 1), process(11, 9), process(12, 8)});
  scene.settings.kill_allocating_task = true;
  EXPECT_EQ(reported(scene), "kills 11 before 12") << "the allocating process is unknown";
  scene.allocating = 10;
  EXPECT_EQ(reported(scene), "kills-allocating 10 before 11");
  EXPECT_EQ(predict(scene).victim, (OomChoice{0, 1}));
  EXPECT_TRUE(tied_for_first(scene).empty());
  scene.domain.constraint = Constraint::memcg;
  scene.domain.cgroup = id_of("/");
  EXPECT_EQ(reported(scene), "kills 11 before 12") << "not for a memcg";
  scene.domain.constraint = Constraint::none;
  scene.settings.panic_on_oom = 1;
  EXPECT_EQ(reported(scene), "panics") << "comes before it";
  scene.settings.panic_on_oom = 0;
  for (const Unkillable reason :
       {Unkillable::init, Unkillable::kernel_thread, Unkillable::no_memory, Unkillable::adjusted}) {
    scene.processes[0] = unkillable(process(10, 1), reason);
    EXPECT_EQ(reported(scene), "kills 11 before 12") << to_string(reason);
  }
  for (const Unkillable reason : {Unkillable::reaped, Unkillable::in_vfork}) {
    scene.processes[0] = unkillable(process(10, 1), reason);
    EXPECT_EQ(reported(scene), "kills-allocating 10 before 11") << to_string(reason);
  }
  scene.processes[1] = chosen_before(process(11, 9), false);
  EXPECT_EQ(reported(scene), "kills-allocating 10") << "earlier victims do not matter";
}

TEST(OomSelectionTest, NodesOfACpuset) {
  ProcessSample here = process(10, 1);
  here.nodes_allowed = 0b011;
  ProcessSample elsewhere = process(11, 9);
  elsewhere.nodes_allowed = 0b100;
  OomScene scene = node_scene({here, elsewhere});
  EXPECT_EQ(reported(scene), "kills 11 before 10");
  scene.domain.constraint = Constraint::cpuset;
  scene.domain.nodes = 0b010;
  EXPECT_EQ(reported(scene), "kills 10");
  scene.processes[1] = chosen_before(elsewhere, false);
  EXPECT_EQ(reported(scene), "kills 10") << "not eligible, so it does not stop the walk";
  // Without a constraint, the nodes of the allocating process count.
  scene.domain.constraint = Constraint::none;
  EXPECT_EQ(reported(scene), "waits");
  scene.allocating = 10;
  EXPECT_EQ(reported(scene), "kills 10");
  scene.settings.kill_allocating_task = true;
  scene.domain.constraint = Constraint::cpuset;
  scene.domain.nodes = 0b100;
  EXPECT_EQ(reported(scene), "waits") << "the allocating process is not eligible";
}

TEST(OomSelectionTest, NodesOfAPolicy) {
  ProcessSample here = process(10, 1);
  here.nodes_bound = 0b010;
  ProcessSample elsewhere = process(11, 9);
  elsewhere.nodes_bound = 0b100;
  ProcessSample anywhere = process(12, 5);
  anywhere.nodes_allowed = 0b100;
  OomScene scene = node_scene({here, elsewhere, anywhere});
  scene.domain.constraint = Constraint::memory_policy;
  scene.domain.nodes = 0b010;
  EXPECT_EQ(reported(scene), "kills 12 before 10") << "cpusets do not count";
  scene.domain.constraint = Constraint::memcg;
  EXPECT_EQ(reported(scene), "kills 11 before 12") << "nodes do not count";
}

TEST(OomSelectionTest, SharersOfTheMemoryDieWithIt) {
  const ProcessSample victim = process(10, 9);
  const ProcessSample init = unkillable(sharing(process(1, 0), victim), Unkillable::init);
  const OomScene scene = node_scene({init, victim, adjusted(sharing(process(11, 0), victim), -1000),
                                     process(12, 1), sharing(process(13, 0), victim)});
  EXPECT_EQ(reported(scene), "kills 13 before 10 (tied), with 10 11");
  OomScene unknown = scene;
  for (ProcessSample& one : unknown.processes) one.memory_id = 0;
  EXPECT_EQ(reported(unknown), "kills 13 before 10 (tied)") << "not known to be shared";
  const OomScene outside = memcg_scene(
      {process(10, 9, "/a"), sharing(process(11, 0, "/b"), victim), process(12, 1, "/a")}, {"/a"});
  EXPECT_EQ(reported(outside), "kills 10 before 12, with 11") << "the signal ignores memcgs";
}

TEST(OomSelectionTest, TheOutermostGroupOfTheDomainIsKilledWhole) {
  const std::vector<std::string> tree{"/*", "/a", "/a/b*", "/a/b/c*", "/a/d*", "/e"};
  const ProcessSample outside = process(20, 2, "/e");
  OomScene scene = node_scene(
      {process(10, 9, "/a/b/c"), process(11, 1, "/a/b"), process(12, 1, "/a/b/c"),
       process(13, 1, "/a"), process(14, 1, "/a/d"), adjusted(process(15, 1, "/a/b"), -1000),
       unkillable(process(1, 1, "/a/b"), Unkillable::init),
       unkillable(process(16, 0, "/a/b"), Unkillable::no_memory),
       sharing(process(17, 0, "/a/b"), outside), outside,
       unkillable(process(18, 1, "/a/b"), Unkillable::in_vfork)},
      tree);
  EXPECT_EQ(reported(scene), "kills 10 before 20, /a/b goes, with 11 12 17 20 18")
      << "20 shares the mm of a member; the root has no such file";
  scene.domain.constraint = Constraint::memcg;
  scene.cgroups = cgroups({"/a/b/c*"});
  EXPECT_EQ(reported(scene), "kills 10 before 12, /a/b/c goes, with 12") << "not beyond the domain";
  scene.cgroups = cgroups({"/a", "/a/b", "/a/b/c", "/a/d*"});
  EXPECT_EQ(reported(scene), "kills 10 before 17") << "not the victim's";
  scene.cgroups = cgroups({"/a*", "/a/b", "/a/b/c", "/a/d"});
  EXPECT_EQ(reported(scene), "kills 10 before 17, /a goes, with 11 12 13 14 17 20 18");
}

TEST(OomSelectionTest, AVictimThatIsDyingAnywayIsOnlyMarked) {
  const ProcessSample victim = dying(process(10, 9, "/a"));
  OomScene scene = memcg_scene(
      {victim, dying(sharing(process(11, 0, "/a"), victim)), process(12, 1, "/a")}, {"/a*"});
  EXPECT_EQ(reported(scene), "kills 11 before 10 (tied)");
  scene.processes[0].dying = false;
  EXPECT_EQ(reported(scene), "kills 11 before 10 (tied), /a goes, with 10 12");
}

TEST(OomSelectionTest, AVictimsCgroupThatIsNotKnownHasNoGroup) {
  OomScene scene = node_scene({process(10, 9, "/new"), process(11, 1, "/a")}, {"/", "/a*"});
  EXPECT_EQ(reported(scene), "kills 10 before 11");
  scene.domain.constraint = Constraint::memcg;
  EXPECT_EQ(reported(scene), "kills 11, /a goes") << "and belongs to no memcg";
  scene.cgroups.clear();
  EXPECT_EQ(reported(scene), "no-victim");
}

}  // namespace
}  // namespace forestall::policy
