// SPDX-License-Identifier: Apache-2.0
// The scene of an OOM in literal worlds, and on this machine.
#include "sources/oom_scene.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "sources/cgroup_walk.h"
#include "sources/memcg_limit.h"
#include "sources/node_pages.h"
#include "support/child.h"
#include "support/long_path_group.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::sources::oom_scene_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kZoneinfo =
    "Node 0, zone      DMA\n  per-node stats\n      nr_inactive_anon 5\n  pages free     100\n"
    "        boost    0\n        present  1000\n        managed  900\n"
    "Node 0, zone   Normal\n  pages free     3\n        present  2000\n        managed  1900\n"
    "Node 1, zone   Normal\n  pages free     3\n        present  4000\n        managed  1\n";

// Records what was requested.
class FakeProcesses final : public ProcessSource {
 public:
  Result<void> scan(std::optional<CgroupId> subtree, std::vector<ProcessSample>& samples) override {
    asked = subtree;
    samples.assign(1, {});
    return {};
  }
  Result<bool> order(std::vector<ProcessSample>&, const std::vector<std::size_t>&) override {
    return false;
  }
  [[nodiscard]] std::string_view name() const override { return "fake"; }

  std::optional<CgroupId> asked = CgroupId{99};
};

Pages in_pages(Bytes bytes) {
  return bytes.count / ::sysconf(_SC_PAGESIZE);
}

struct World {
  explicit World(std::initializer_list<std::pair<std::string, std::string>> base) : files(base) {
    files.write("proc/meminfo", "MemTotal: 4000 kB\nSwapTotal: 1000 kB\n");
    files.write("proc/zoneinfo", kZoneinfo);
    files.write("proc/sys/vm/panic_on_oom", "0\n");
    files.write("proc/sys/vm/oom_kill_allocating_task", "1\n");
    files.write("proc/sys/vm/swappiness", "60\n");
    files.write("sys/node/has_memory", "0-1\n");
    tree = kernel::CgroupTree::discover(files / "cgroup").value();
  }
  OomSceneReader reader() { return {tree, processes, files / "proc", files / "sys"}; }
  CgroupId id_of(const std::string& path) { return tree.open(path).value().id(); }

  test::TempTree files;
  kernel::CgroupTree tree;
  FakeProcesses processes;
};

World v2_world() {
  return World({{"cgroup/cgroup.controllers", "memory\n"},
                {"cgroup/cgroup.procs", ""},
                {"cgroup/a/memory.oom.group", "1\n"},
                {"cgroup/a/memory.max", "4194304\n"},
                {"cgroup/a/memory.swap.max", "max\n"},
                {"cgroup/a/b/memory.oom.group", "0\n"},
                {"cgroup/a/b/memory.max", "max\n"},
                {"cgroup/a/b/memory.swap.max", "0\n"},
                {"cgroup/a/plain/cgroup.procs", ""},
                {"cgroup/c/memory.oom.group", "0\n"}});
}

World v1_world() {
  return World(
      {{"cgroup/memory/cgroup.procs", ""},
       {"cgroup/memory/memory.stat", "1\n"},
       {"cgroup/memory/a/memory.limit_in_bytes", "4194304\n"},
       {"cgroup/memory/a/memory.swappiness", "60\n"},
       {"cgroup/memory/a/memory.oom_control", "oom_kill_disable 1\nunder_oom 0\noom_kill 0\n"}});
}

TEST(OomScene, TheNode) {
  auto world = v2_world();
  OomScene scene;
  scene.allocating = 1;
  const auto done = world.reader().read_node(scene);
  ASSERT_TRUE(done.ok()) << done.error().text();
  EXPECT_EQ(scene.domain.constraint, Constraint::none);
  EXPECT_EQ(scene.domain.total_pages, in_pages(kib(4000)) + in_pages(kib(1000)));
  EXPECT_TRUE(scene.settings.kill_allocating_task);
  EXPECT_EQ(scene.settings.panic_on_oom, 0);
  EXPECT_EQ(scene.allocating, std::nullopt);
  EXPECT_EQ(scene.processes.size(), 1U);
  EXPECT_EQ(world.processes.asked, std::nullopt);
  // The group without the controller does not count.
  ASSERT_EQ(scene.cgroups.size(), 4U);
  EXPECT_EQ(scene.cgroups.front().path, "/");
  EXPECT_EQ(scene.cgroups.front().parent, std::nullopt);
}

TEST(OomScene, AMemcgWithItsLimitAndItsGroups) {
  auto world = v2_world();
  OomScene scene;
  const auto done = world.reader().read_memcg("/a", scene);
  ASSERT_TRUE(done.ok()) << done.error().text();
  EXPECT_EQ(scene.domain.constraint, Constraint::memcg);
  EXPECT_EQ(scene.domain.path, "/a");
  EXPECT_EQ(scene.domain.cgroup, world.id_of("/a"));
  EXPECT_EQ(world.processes.asked, world.id_of("/a"));
  EXPECT_EQ(scene.domain.total_pages, in_pages(mib(4)) + in_pages(kib(1000)));
  EXPECT_FALSE(scene.domain.kill_disabled);
  EXPECT_THAT(scene.cgroups, ElementsAre(OomCgroup{world.id_of("/a"), "/a", std::nullopt, true},
                                         OomCgroup{world.id_of("/a/b"), "/a/b", 0, false}));
}

TEST(OomScene, AMemcgOfV1WithoutItsKiller) {
  auto world = v1_world();
  OomScene scene;
  auto done = world.reader().read_memcg("/a", scene);
  ASSERT_TRUE(done.ok()) << done.error().text();
  EXPECT_TRUE(scene.domain.kill_disabled);
  // Swap is not accounted: only the node limits it.
  EXPECT_EQ(scene.domain.total_pages, in_pages(mib(4)) + in_pages(kib(1000)));
  world.files.write("cgroup/memory/a/memory.memsw.limit_in_bytes", "4325376\n");
  world.files.write("cgroup/memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 1\n");
  done = world.reader().read_memcg("/a", scene);
  ASSERT_TRUE(done.ok());
  EXPECT_FALSE(scene.domain.kill_disabled);
  EXPECT_EQ(scene.domain.total_pages, in_pages(mib(4)) + in_pages(kib(128)));
}

TEST(OomScene, ADomainThatCannotRunOutIsAnError) {
  auto world = v2_world();
  OomScene scene;
  for (const char* path : {"/", "/a/b", "/a/plain", "/gone"}) {
    EXPECT_FALSE(world.reader().read_memcg(path, scene).ok()) << path;
  }
  // Our own refusal is not an error of a system call.
  EXPECT_EQ(world.reader().read_memcg("/a/b", scene).error().text(),
            "/a/b: no memory limit of its own, so it cannot run out");
}

TEST(OomScene, NodesCountPresentPages) {
  auto world = v2_world();
  OomScene scene;
  auto done = world.reader().read_nodes(Constraint::cpuset, 2, scene);
  ASSERT_TRUE(done.ok()) << done.error().text();
  EXPECT_EQ(scene.domain.total_pages, 4000 + in_pages(kib(1000)));
  EXPECT_EQ(scene.domain.nodes, 2U);
  EXPECT_EQ(scene.domain.constraint, Constraint::cpuset);
  // All nodes: neither the kernel nor we see a constraint in that.
  EXPECT_FALSE(world.reader().read_nodes(Constraint::memory_policy, kAllNodes, scene).ok());
  EXPECT_FALSE(world.reader().read_nodes(Constraint::memory_policy, 3, scene).ok());
  EXPECT_EQ(world.reader().read_nodes(Constraint::memcg, 1, scene).error().code, 0);
  // Without memory there can be no OOM: no domain of 0 pages.
  done = world.reader().read_nodes(Constraint::cpuset, 4, scene);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().text(), "none of these nodes has memory, so they cannot run out");
  EXPECT_FALSE(world.reader().read_nodes(Constraint::cpuset, 0, scene).ok());
}

TEST(OomScene, AMissingSettingIsNotItsDefault) {
  auto world = v2_world();
  std::filesystem::remove(world.files / "proc/sys/vm/panic_on_oom");
  OomScene scene;
  const auto done = world.reader().read_node(scene);
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().text(), HasSubstr("panic_on_oom"));
}

TEST(PresentPages, SumsTheZonesOfTheNodes) {
  EXPECT_EQ(present_pages(kZoneinfo, 1).value(), 3000);
  EXPECT_EQ(present_pages(kZoneinfo, 3).value(), 7000);
  EXPECT_EQ(present_pages(kZoneinfo, 4).value(), 0);
  for (const char* broken : {"", "present 5\n", "Node 0, zone DMA\npresent x\n",
                             "Node 0, zone DMA\npresent 9223372036854775807\npresent 1\n"}) {
    EXPECT_FALSE(present_pages(broken, 1).ok()) << broken;
  }
}

// As Linux 6.18 prints it: a zone without memory has a watermark too.
TEST(ZoneSums, AreOverZonesWithMemory) {
  const std::string zoneinfo =
      "Node 0, zone      DMA\n  per-node stats\n      nr_inactive_anon 5\n  pages free     2816\n"
      "        boost    0\n        min      13\n        low      16\n        high     19\n"
      "        promo    22\n        spanned  4095\n        present  3998\n        managed  3840\n"
      "        protection: (0, 3019, 19019, 19019, 19019)\n"
      "Node 0, zone   Normal\n        low      18298\n        managed  4096000\n  pagesets\n"
      "    cpu: 0\n              high:     41346\n"
      "Node 0, zone  Movable\n        low      32\n        managed  0\n";
  EXPECT_EQ(zone_sums(zoneinfo).value(), (ZoneSums{16 + 18298, 3840 + 4096000}));
  for (const char* broken :
       {"", "low 5\n", "managed 5\n", "low x\nmanaged 5\n", "low 5\nmanaged -1\n",
        "low 5\nmanaged 0\n", "low 5\nmanaged 9223372036854775807\n"}) {
    EXPECT_FALSE(zone_sums(broken).ok()) << broken;
  }
}

TEST(MemcgTotalPages, AsMemCgroupGetMaxSumsThem) {
  const auto total = [](MemcgLimits limits, Pages swap) {
    return memcg_total_pages(limits, swap, 4096);
  };
  EXPECT_EQ(total({std::nullopt, std::nullopt, std::nullopt, 60}, 10), std::nullopt);
  EXPECT_EQ(total({mib(1), std::nullopt, std::nullopt, 60}, 10), 266);
  EXPECT_EQ(total({mib(1), std::nullopt, std::nullopt, 0}, 10), 256);
  EXPECT_EQ(total({mib(1), kib(8), std::nullopt, 60}, 10), 258);
  EXPECT_EQ(total({mib(1), Bytes{0}, std::nullopt, 60}, 10), 256);
  EXPECT_EQ(total({mib(1), std::nullopt, mib(1) + kib(4), 60}, 10), 257);
  EXPECT_EQ(total({mib(1), std::nullopt, mib(2), 60}, 10), 266);
  EXPECT_EQ(total({mib(1), std::nullopt, mib(2), 0}, 10), 256);
  EXPECT_EQ(total({Bytes{0}, std::nullopt, std::nullopt, 60}, 0), 1);
}

// The walk follows the order of creation, not of names.
TEST(CgroupWalk, SiblingsComeAsTheyWereMade) {
  test::ScratchCgroup scratch;
  std::vector<std::string> made{scratch.path()};
  for (const char* name : {"z", "z/2", "z/1", "m", "a", "a/x"}) made.push_back(scratch.child(name));
  const auto tree = kernel::CgroupTree::discover().value();
  std::vector<OomCgroup> found;
  const auto done = walk_memory_cgroups(tree, scratch.path(), found);
  ASSERT_TRUE(done.ok()) << done.error().text();
  std::vector<std::string> paths;
  for (const auto& cgroup : found) paths.push_back(cgroup.path);
  EXPECT_EQ(paths, made);
  EXPECT_EQ(found.front().parent, std::nullopt);
  EXPECT_EQ(found[2].parent, 1U);
  EXPECT_EQ(found[6].parent, 5U);
  scratch.remove_child(scratch.path() + "/m");
  ASSERT_TRUE(walk_memory_cgroups(tree, scratch.path(), found).ok());
  EXPECT_EQ(found.size(), made.size() - 1);
  EXPECT_FALSE(walk_memory_cgroups(tree, scratch.path() + "/m", found).ok());
}

// A tenant with 17 levels of the longest names must not turn the prediction off.
TEST(CgroupWalk, PathsLongerThanPathMaxAreVisited) {
  test::ScratchCgroup scratch;
  const std::string top = scratch.child("tenant");
  const std::string younger = scratch.child("younger");
  const test::LongPathGroup deep(scratch.directory(top));
  const auto tree = kernel::CgroupTree::discover().value();
  std::vector<OomCgroup> found;
  std::size_t opened = 0;
  const auto done = walk_memory_cgroups(tree, scratch.path(), found, [&](const auto& group) {
    opened += group.id() == found.back().id ? 1 : 0;
    return Result<void>();
  });
  ASSERT_TRUE(done.ok()) << done.error().text();
  ASSERT_EQ(found.size(), 3U + test::LongPathGroup::kLevels);
  EXPECT_EQ(opened, found.size());
  for (std::size_t i = 1; i + 1 < found.size(); ++i) EXPECT_EQ(found[i].parent, i - 1);
  EXPECT_EQ(found.back().path, younger) << "after all of its older sibling";
  EXPECT_EQ(found.back().parent, 0U);
  for (const auto& each : found) EXPECT_LT(each.path.size(), PATH_MAX + 4) << "a bounded amount";
  EXPECT_TRUE(found[found.size() - 2].path.ends_with("/..."));
}

TEST(CgroupWalk, ProcessesBelowPathMaxAreRead) {
  test::ScratchCgroup scratch;
  const std::string top = scratch.child("tenant");
  const test::LongPathGroup deep(scratch.directory(top));
  const auto tree = kernel::CgroupTree::discover().value();
  {
    const test::Hog hog(scratch, top, mib(1));
    deep.write("cgroup.procs", std::to_string(hog.pid()));
    const auto processes = std::move(proc_process_source(tree)).value();
    std::vector<ProcessSample> samples;
    const auto scanned = processes->scan(tree.open(top)->id(), samples);
    ASSERT_TRUE(scanned.ok()) << scanned.error().text();
    ASSERT_EQ(samples.size(), 1U);
    EXPECT_EQ(samples[0].id.pid, hog.pid());
    // A scan of the whole node attributes it to a group of the tenant, too.
    ASSERT_TRUE(processes->scan(std::nullopt, samples).ok());
    std::vector<OomCgroup> groups;
    ASSERT_TRUE(walk_memory_cgroups(tree, top, groups).ok());
    const auto own = std::ranges::find(samples, hog.pid(), [](const auto& s) { return s.id.pid; });
    ASSERT_NE(own, samples.end());
    if (own->cgroup != CgroupId{}) {
      EXPECT_NE(std::ranges::find(groups, own->cgroup, &OomCgroup::id), groups.end());
    }
  }
}

}  // namespace
}  // namespace forestall::sources::oom_scene_test
