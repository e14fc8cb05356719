// SPDX-License-Identifier: Apache-2.0
// Trees of all three shapes made from literals; and the same tests on this machine's hierarchies
// with scratch cgroups, where removal is real.
#include "kernel/cgroup_tree.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "kernel/cgroup_path.h"
#include "kernel/cgroup_processes.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::kernel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

CgroupTree discover(const std::string& directory) {
  auto tree = CgroupTree::discover(directory);
  EXPECT_TRUE(tree) << tree.error().text();
  return std::move(tree).value();
}

TEST(CgroupTreeShape, UnifiedDirectoryIsV2) {
  const test::TempTree files{{"cgroup.controllers", "cpu memory\n"}};
  const auto tree = discover(files.path());
  EXPECT_EQ(tree.version(), CgroupVersion::v2);
  EXPECT_FALSE(tree.hybrid());
  EXPECT_EQ(tree.memory_mount(), files.path());
  EXPECT_EQ(tree.unified_fd(), tree.memory_fd());
}

TEST(CgroupTreeShape, MemoryDirectoryIsV1) {
  const test::TempTree files{{"memory/memory.stat", "cache 0\n"}};
  const auto tree = discover(files.path());
  EXPECT_EQ(tree.version(), CgroupVersion::v1);
  EXPECT_FALSE(tree.hybrid());
  EXPECT_EQ(tree.unified_fd(), -1);
  const auto unified = tree.open_unified("/");
  ASSERT_FALSE(unified);
  EXPECT_EQ(unified.error().code, ENOENT);
}

TEST(CgroupTreeShape, ADirectoryThatIsNoRootIsNotTheWholeHierarchy) {
  const test::TempTree files{{"memory/memory.stat", "cache 0\n"}};
  EXPECT_FALSE(is_mounted_whole(discover(files.path())));
}

TEST(CgroupTreeShape, MemoryBesideUnifiedIsHybrid) {
  const test::TempTree files{{"memory/memory.stat", "cache 0\n"},
                             {"memory/a/cgroup.procs", ""},
                             {"memory/b/cgroup.procs", ""},
                             {"unified/cgroup.controllers", "\n"},
                             {"unified/a/cgroup.procs", ""}};
  const auto tree = discover(files.path());
  EXPECT_TRUE(tree.hybrid());
  const auto there = tree.open_unified("/a");
  ASSERT_TRUE(there) << there.error().text();
  const auto absent = tree.open_unified("/b");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ENOENT);
}

TEST(CgroupTreeShape, AnyOtherDirectoryIsRefusedByName) {
  const test::TempTree files{{"cpu/cpu.shares", "1024\n"}};
  const auto tree = CgroupTree::discover(files.path());
  ASSERT_FALSE(tree);
  EXPECT_THAT(tree.error().text(), HasSubstr(files.path().string()));
}

TEST(CgroupTreeHost, LibcgroupAndTheFilesAgree) {
  const auto tree = discover("/sys/fs/cgroup");
  EXPECT_EQ(tree.memory_mount(), test::mounts().memory);
  EXPECT_EQ(tree.version() == CgroupVersion::v1, test::mounts().v1);
  EXPECT_EQ(tree.unified_fd() >= 0, !test::mounts().unified.empty());
}

TEST(CgroupDirPath, AcceptsOnlyTheCanonicalPath) {
  const test::TempTree files{{"cgroup.controllers", ""}, {"a/b/cgroup.procs", ""}};
  const auto tree = discover(files.path());
  for (const std::string good : {"/", "/a", "/a/b"}) EXPECT_TRUE(tree.open(good)) << good;
  for (const std::string bad :
       {"", "a", "//", "/a/", "/a//b", "/..", "/a/../a", "/a/.", "/./a", "/a/b/"}) {
    const auto dir = tree.open(bad);
    ASSERT_FALSE(dir) << bad;
    EXPECT_EQ(dir.error().code, EINVAL) << bad;
  }
  EXPECT_FALSE(tree.open(std::string_view("/a\0b", 4)));
  const auto file = tree.open("/a/b/cgroup.procs");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ENOTDIR);
}

TEST(CgroupDirPath, SymbolicLinksAreNotFollowed) {
  const test::TempTree files{{"cgroup.controllers", ""}, {"a/", ""}};
  std::filesystem::create_directory_symlink("/", files / "a/out");
  EXPECT_FALSE(discover(files.path()).open("/a/out"));
}

// As oomd's DistinguishRecreate: the same path is not the same cgroup.
TEST(CgroupDirIdentity, ARemadeCgroupIsAnotherOne) {
  test::ScratchCgroup scratch;
  const auto tree = discover("/sys/fs/cgroup");
  const auto path = scratch.child("again");
  const auto before = tree.open(path);
  ASSERT_TRUE(before) << before.error().text();
  EXPECT_TRUE(before->still_at_path(tree.memory_fd()));
  scratch.remove_child(path);
  EXPECT_FALSE(before->still_at_path(tree.memory_fd()));
  EXPECT_EQ(scratch.child("again"), path);
  EXPECT_FALSE(before->still_at_path(tree.memory_fd()));
  const auto after = tree.open(path);
  ASSERT_TRUE(after) << after.error().text();
  EXPECT_NE(after->id(), before->id());
}

TEST(CgroupDirIdentity, DistinguishesRemovedFromUnknownFile) {
  test::ScratchCgroup scratch;
  const auto tree = discover("/sys/fs/cgroup");
  const auto path = scratch.child("gone");
  const auto dir = tree.open(path);
  ASSERT_TRUE(dir) << dir.error().text();
  EXPECT_TRUE(dir->read("cgroup.procs"));
  EXPECT_EQ(dir->read("memory.from_the_future").error().code, ENOENT);
  scratch.remove_child(path);
  EXPECT_EQ(dir->read("cgroup.procs").error().code, ENODEV);
  EXPECT_EQ(dir->processes().error().code, ENODEV);
  EXPECT_EQ(list_processes(*dir).error().code, ENODEV);
  EXPECT_EQ(dir->children().error().code, ENODEV);
}

TEST(CgroupDirFiles, WriteReachesTheKernelAndItsRefusalComesBack) {
  test::ScratchCgroup scratch;
  const auto tree = discover("/sys/fs/cgroup");
  const char* file = tree.version() == CgroupVersion::v1 ? "memory.limit_in_bytes" : "memory.max";
  const auto dir = tree.open(scratch.child("w"));
  ASSERT_TRUE(dir) << dir.error().text();
  const auto written = dir->write(file, "67108864");
  ASSERT_TRUE(written) << written.error().text();
  const auto text = dir->read(file);
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_EQ(*text, "67108864\n");
  const auto refused = dir->write(file, "nonsense");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_THAT(refused.error().message, HasSubstr("nonsense"));
}

TEST(CgroupDirProcesses, OwnAndRecursive) {
  test::ScratchCgroup scratch;
  const auto outer = scratch.child("outer");
  const auto inner = scratch.child("outer/inner");
  const auto tree = discover("/sys/fs/cgroup");
  // v2 allows no processes in a group that has controllers for its children.
  const bool both = tree.version() == CgroupVersion::v1;
  const test::Hog in_inner(scratch, inner, mib(1));
  std::optional<test::Hog> in_outer;
  if (both) in_outer.emplace(scratch, outer, mib(1));
  const auto dir = tree.open(outer);
  ASSERT_TRUE(dir) << dir.error().text();
  const auto own = dir->processes();
  ASSERT_TRUE(own) << own.error().text();
  const auto all = list_processes(*dir);
  ASSERT_TRUE(all) << all.error().text();
  if (both) {
    EXPECT_THAT(*own, ElementsAre(in_outer->pid()));
    EXPECT_THAT(all->pids, UnorderedElementsAre(in_inner.pid(), in_outer->pid()));
  } else {
    EXPECT_THAT(*own, IsEmpty());
    EXPECT_THAT(all->pids, ElementsAre(in_inner.pid()));
  }
  const auto children = dir->children();
  ASSERT_TRUE(children) << children.error().text();
  EXPECT_THAT(*children, ElementsAre("inner"));
}

TEST(CgroupDirProcesses, AProcessOfAnotherPidNamespaceIsAnErrorNotAnAbsence) {
  const test::TempTree files{{"cgroup.controllers", ""}, {"a/cgroup.procs", "12\n0\n13\n"}};
  const auto dir = discover(files.path()).open("/a");
  ASSERT_TRUE(dir) << dir.error().text();
  const auto pids = dir->processes();
  ASSERT_FALSE(pids);
  EXPECT_THAT(pids.error().text(), HasSubstr("pid namespace"));
}

TEST(CgroupTreeMatch, WalksOnlyMatchesOfTheGlob) {
  const test::TempTree files{
      {"cgroup.controllers", ""}, {"kube/podA/c1/", ""},        {"kube/podB/", ""},
      {"kube/other/", ""},        {"kube/podfile", "no group"}, {"system.slice/ssh.service/", ""},
      {"we[ird/x/", ""}};
  const auto tree = discover(files.path());
  const auto match = [&](const std::string& glob) {
    auto found = tree.match(glob);
    EXPECT_TRUE(found) << found.error().text();
    return std::move(found).value();
  };
  EXPECT_THAT(match("/kube/pod*"), ElementsAre("/kube/podA", "/kube/podB"));
  EXPECT_THAT(match("/*/*"), ElementsAre("/kube/other", "/kube/podA", "/kube/podB",
                                         "/system.slice/ssh.service", "/we[ird/x"));
  EXPECT_THAT(match("/kube/*/c?"), ElementsAre("/kube/podA/c1"));
  EXPECT_THAT(match("/kube/pod[!A]"), ElementsAre("/kube/podB"));
  EXPECT_THAT(match("/we\\[ird/x"), ElementsAre("/we[ird/x"));
  EXPECT_THAT(match("/kube"), ElementsAre("/kube"));
  EXPECT_THAT(match("/"), ElementsAre("/"));
  EXPECT_THAT(match("/absent/*"), IsEmpty());
  EXPECT_THAT(match("/kube/"), IsEmpty());
  EXPECT_THAT(match("//kube"), IsEmpty());
  EXPECT_THAT(match("/../*"), IsEmpty());
  EXPECT_THAT(match("/kub[e/pod]A"), IsEmpty());
  const auto relative = tree.match("kube/*");
  ASSERT_FALSE(relative);
  EXPECT_THAT(relative.error().text(), HasSubstr("kube/*"));
}

TEST(GlobMatches, WildcardsStopAtTheSlash) {
  EXPECT_TRUE(glob_matches("/a/*", "/a/b"));
  EXPECT_FALSE(glob_matches("/a/*", "/a/b/c"));
  EXPECT_FALSE(glob_matches("/a?b", "/a/b"));
  EXPECT_TRUE(glob_matches("/a/*", "/a/.hidden"));
}

TEST(ParseCgroupPath, FindsTheLineOfTheMemoryHierarchy) {
  struct Row {
    std::string text;
    CgroupVersion version;
    std::string expected;
  };
  const Row rows[] = {
      {"5:devices:/d\n4:memory:/m\n0::/u\n", CgroupVersion::v1, "/m"},
      {"5:devices:/d\n4:memory:/m\n0::/u\n", CgroupVersion::v2, "/u"},
      {"4:cpu,memory,pids:/m\n", CgroupVersion::v1, "/m"},
      {"4:memory:/with:colon\n", CgroupVersion::v1, "/with:colon"},
      {"0::/\n", CgroupVersion::v2, "/"},
      {"0::/", CgroupVersion::v2, "/"},
      {"0::/gone (deleted)\n", CgroupVersion::v2, "/gone (deleted)"},
      {"0::/../../init.scope\n", CgroupVersion::v2, "/../../init.scope"},
      {"1:name=memory:/x\n", CgroupVersion::v1, "error: no line of the memory controller"},
      {"4:memoryx:/m\n", CgroupVersion::v1, "error: no line of the memory controller"},
      {"", CgroupVersion::v1, "error: no line of the memory controller"},
      {"", CgroupVersion::v2, "error: no cgroup v2 line (\"0::\")"},
      {"1:name=systemd:/x\n", CgroupVersion::v2, "error: no cgroup v2 line (\"0::\")"},
      {"0:", CgroupVersion::v2, "error: cgroup path \"\" does not begin with /"},
      {"4:memory\n", CgroupVersion::v1, "error: cgroup path \"\" does not begin with /"},
      {"4:memory:m\n", CgroupVersion::v1, "error: cgroup path \"m\" does not begin with /"},
  };
  for (const auto& row : rows) {
    const auto path = parse_cgroup_path(row.text, row.version);
    EXPECT_EQ(path ? *path : "error: " + path.error().text(), row.expected) << row.text;
  }
}

TEST(CgroupTreeHost, PathOfAProcessIsWhereItWasPut) {
  test::ScratchCgroup scratch;
  const auto path = scratch.child("p");
  const test::Hog hog(scratch, path, mib(1));
  const auto found = discover("/sys/fs/cgroup").path_of(hog.pid());
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(*found, path);
}

}  // namespace
}  // namespace forestall::kernel
