// SPDX-License-Identifier: Apache-2.0
#include "kernel/cgroup_create.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "support/child.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::kernel {
namespace {

class CgroupCreate : public ::testing::Test {
 protected:
  CgroupCreate() {
    auto found = CgroupTree::discover();
    if (!found) throw std::runtime_error(found.error().text());
    tree_ = std::move(found).value();
    top_ = "/forestall-create-" + std::to_string(getpid());
  }
  ~CgroupCreate() override { EXPECT_TRUE(delete_group(tree_, top_)); }
  CgroupTree tree_;
  std::string top_;
};

TEST_F(CgroupCreate, NestedLimitedAndInBothHierarchies) {
  const auto made = create_group(tree_, top_ + "/a", mib(32));
  ASSERT_TRUE(made) << made.error().text();
  const auto group = tree_.open(top_ + "/a");
  ASSERT_TRUE(group) << group.error().text();
  const char* file = tree_.version() == CgroupVersion::v1 ? "memory.limit_in_bytes" : "memory.max";
  const auto limit = group->read(file);
  ASSERT_TRUE(limit) << limit.error().text();
  EXPECT_EQ(*limit, std::to_string(mib(32).count) + "\n");
  EXPECT_EQ(tree_.open_unified(top_ + "/a").ok(), tree_.unified_fd() >= 0);
  EXPECT_TRUE(create_group(tree_, top_ + "/a")) << "making it again is no error";
}

TEST_F(CgroupCreate, DeleteNeverMovesAProcess) {
  ASSERT_TRUE(create_group(tree_, top_ + "/a"));
  test::Child child([] { return pause(); });
  const auto group = tree_.open(top_ + "/a");
  ASSERT_TRUE(group) << group.error().text();
  ASSERT_TRUE(group->write("cgroup.procs", std::to_string(child.pid())));
  const auto refused = delete_group(tree_, top_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EBUSY);
  EXPECT_EQ(tree_.path_of(child.pid()).value(), top_ + "/a");
  child.reap();
  const auto deleted = delete_group(tree_, top_);
  EXPECT_TRUE(deleted) << deleted.error().text();
  EXPECT_FALSE(tree_.open(top_));
  EXPECT_TRUE(delete_group(tree_, top_)) << "nothing there is what was wanted";
}

TEST_F(CgroupCreate, TheRootAndCrookedPathsAreRefused) {
  for (const std::string bad : {"/", "", "a", "/a/", "/a//b", "/../a", "/a/..", "/./a"}) {
    EXPECT_EQ(create_group(tree_, bad).error().code, EINVAL) << bad;
    EXPECT_EQ(delete_group(tree_, bad).error().code, EINVAL) << bad;
  }
}

TEST(CgroupCreateElsewhere, AnotherMountThanLibcgroupsIsRefused) {
  const test::TempTree files{{"cgroup.controllers", ""}};
  const auto tree = CgroupTree::discover(files.path());
  ASSERT_TRUE(tree);
  const auto made = create_group(*tree, "/a");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ENODEV);
}

}  // namespace
}  // namespace forestall::kernel
