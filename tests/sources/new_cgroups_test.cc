// SPDX-License-Identifier: Apache-2.0
#include "sources/new_cgroups.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

// As the kernel counts them.
std::size_t watches_of_this_process() {
  std::size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream file(each.path());
    for (std::string line; std::getline(file, line);) count += line.starts_with("inotify wd:");
  }
  return count;
}

class NewCgroupsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto found = kernel::CgroupTree::discover(files_ / "cgroup");
    ASSERT_TRUE(found) << found.error().text();
    tree_ = std::move(found).value();
  }
  void make(const std::string& path) { files_.write("cgroup" + path + "/cgroup.procs", ""); }
  void watch(const std::vector<std::string>& globs) { new_cgroups_.watch(tree_, globs); }

  test::TempTree files_{{"cgroup/cgroup.controllers", "memory\n"},
                        {"cgroup/a/x/cgroup.procs", ""},
                        {"cgroup/other/cgroup.procs", ""}};
  kernel::CgroupTree tree_;
  NewCgroups new_cgroups_;
};

TEST_F(NewCgroupsTest, ReportsOneThatMatches) {
  watch({"/a/*", "/b"});
  EXPECT_FALSE(new_cgroups_.any());
  make("/a/y");
  EXPECT_TRUE(new_cgroups_.any());
  EXPECT_TRUE(new_cgroups_.any()) << "until the tree is listed again";
  watch({"/a/*", "/b"});
  EXPECT_FALSE(new_cgroups_.any());
  make("/b");
  EXPECT_TRUE(new_cgroups_.any());
}

TEST_F(NewCgroupsTest, IgnoresThoseThatCannotMatch) {
  watch({"/a/*", "/b"});
  make("/c");
  make("/other/y");
  make("/a/x/below");
  EXPECT_FALSE(new_cgroups_.any());
}

TEST_F(NewCgroupsTest, ReportsTheFirstNewDirectoryOnTheWay) {
  watch({"/a/*/job", "/new/*/job"});
  make("/a/x/job");
  EXPECT_TRUE(new_cgroups_.any());
  watch({"/a/*/job", "/new/*/job"});
  make("/new/x/job");
  EXPECT_TRUE(new_cgroups_.any());
}

TEST_F(NewCgroupsTest, ReportsARenamedOne) {
  watch({"/a/y"});
  std::filesystem::rename(files_ / "cgroup/a/x", files_ / "cgroup/a/y");
  EXPECT_TRUE(new_cgroups_.any());
}

TEST_F(NewCgroupsTest, NamesThoseThatCame) {
  watch({"/a/*", "/a/*/job"});
  ASSERT_TRUE(new_cgroups_.created());
  EXPECT_TRUE(new_cgroups_.created()->empty());
  make("/a/y/job");
  make("/a/x/job");
  ASSERT_TRUE(new_cgroups_.created());
  EXPECT_EQ(std::vector(new_cgroups_.created()->begin(), new_cgroups_.created()->end()),
            (std::vector<std::string>{"/a/y", "/a/x/job"}));
}

TEST_F(NewCgroupsTest, MoreThanItNamesAreUnknown) {
  watch({"/a/*"});
  for (int i = 0; i < 65; ++i) make("/a/y" + std::to_string(i));
  EXPECT_TRUE(new_cgroups_.any());
  EXPECT_FALSE(new_cgroups_.created());
  watch({"/a/*"});
  EXPECT_TRUE(new_cgroups_.created());
}

// Regression: a tenant that renamed one cgroup to and fro used up the names.
TEST_F(NewCgroupsTest, OneThatComesAgainAndAgainIsNamedOnce) {
  watch({"/a/*"});
  for (int i = 0; i < 100; ++i) {
    std::filesystem::rename(files_ / "cgroup/a/x", files_ / "cgroup/a/y");
    std::filesystem::rename(files_ / "cgroup/a/y", files_ / "cgroup/a/x");
  }
  ASSERT_TRUE(new_cgroups_.created());
  EXPECT_EQ(std::vector(new_cgroups_.created()->begin(), new_cgroups_.created()->end()),
            (std::vector<std::string>{"/a/y", "/a/x"}));
}

// Otherwise a tenant that makes and removes cgroups uses up the watches of the agent's user.
TEST(NewCgroups, RemovedDirectoriesLeaveNoWatches) {
  test::ScratchCgroup scratch;
  auto tree = kernel::CgroupTree::discover();
  ASSERT_TRUE(tree) << tree.error().text();
  NewCgroups new_cgroups;
  const std::vector<std::string> globs{scratch.path() + "/*/*"};
  new_cgroups.watch(*tree, globs);
  const std::size_t before = watches_of_this_process();
  const std::string child = scratch.child("x");
  new_cgroups.watch(*tree, globs);
  EXPECT_EQ(watches_of_this_process(), before + 1);
  ASSERT_EQ(::rmdir(scratch.directory(child).c_str()), 0);
  new_cgroups.watch(*tree, globs);
  EXPECT_EQ(watches_of_this_process(), before);
}

TEST(NewCgroups, TheKernelReportsThoseMadeInItsHierarchy) {
  test::ScratchCgroup scratch;
  auto tree = kernel::CgroupTree::discover();
  ASSERT_TRUE(tree) << tree.error().text();
  NewCgroups new_cgroups;
  new_cgroups.watch(*tree, std::vector{scratch.path() + "/*"});
  EXPECT_FALSE(new_cgroups.any());
  (void)scratch.child("x");
  EXPECT_TRUE(new_cgroups.any());
}

}  // namespace
}  // namespace forestall::sources
