// SPDX-License-Identifier: Apache-2.0
// What rulesets decide on, read from the real cgroups of this machine.
#include "sources/rule_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/xattr.h>

#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

TEST(RuleReader, ReadsACgroupByTheKernelsFiles) {
  const auto tree = kernel::CgroupTree::discover();
  ASSERT_TRUE(tree.ok());
  ScratchCgroup scratch;
  const std::string path = scratch.child("read");
  scratch.limit(path, mib(64));
  const Hog hog(scratch, path, mib(8));
  const auto directory = tree->open(path);
  ASSERT_TRUE(directory.ok());
  const bool marked = ::fsetxattr(directory->fd(), "user.oomd_avoid", "1", 1, 0) == 0 ||
                      ::fsetxattr(directory->fd(), "trusted.oomd_avoid", "1", 1, 0) == 0;
  const sources::RuleReader reader(*tree);
  const auto read = reader.read(MonotonicTime(std::chrono::seconds(7)));
  EXPECT_EQ(read.time, std::chrono::seconds(7));
  EXPECT_GT(read.host.mem_total.value_or(0), mib(64).count);
  EXPECT_TRUE(read.host.mem_available && read.host.swap_total && read.host.swappiness);
  ASSERT_NE(read.find("/"), nullptr);
  const rulesets::Cgroup* cgroup = read.find(path);
  ASSERT_NE(cgroup, nullptr);
  EXPECT_EQ(cgroup->id, directory->id().inode);
  EXPECT_GE(cgroup->current.value_or(0), mib(8).count);
  EXPECT_EQ(cgroup->max, mib(64).count);
  ASSERT_TRUE(cgroup->stat);
  EXPECT_GT(cgroup->stat->anon.value_or(0), mib(4).count);
  EXPECT_TRUE(cgroup->stat->inactive_file);
  EXPECT_EQ(cgroup->xattrs.size(), marked ? 1U : 0U);
  if (tree->version() == kernel::CgroupVersion::v1) {
    // v1 has no such files: unknown, and not zero.
    EXPECT_FALSE(cgroup->high || cgroup->frozen || cgroup->populated || cgroup->stat->pgscan);
    return;
  }
  EXPECT_EQ(cgroup->high, rulesets::kNoLimit);
  EXPECT_EQ(cgroup->low, 0);
  EXPECT_EQ(cgroup->populated, true);
  EXPECT_EQ(cgroup->frozen, false);
  EXPECT_EQ(cgroup->oom_group, false);
  EXPECT_EQ(cgroup->dying_descendants, 0);
  EXPECT_TRUE(cgroup->stat->pgscan && cgroup->stat->refaults);
  EXPECT_TRUE(cgroup->memory_pressure && cgroup->memory_pressure->full->total_us);
}

TEST(RuleReader, LeavesOutWhatIsGone) {
  const auto tree = kernel::CgroupTree::discover();
  ASSERT_TRUE(tree.ok());
  ScratchCgroup scratch;
  const std::string path = scratch.child("gone");
  const sources::RuleReader reader(*tree);
  EXPECT_NE(reader.read({}).find(path), nullptr);
  scratch.remove_child(path);
  EXPECT_EQ(reader.read({}).find(path), nullptr);
  EXPECT_NE(reader.read({}).find(scratch.path()), nullptr);
}

}  // namespace
}  // namespace forestall::test
