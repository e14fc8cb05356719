// SPDX-License-Identifier: Apache-2.0
// What rulesets decide on, read from the real cgroups of this machine.
#include "sources/rule_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sources/rule_selection.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

using testing::IsEmpty;

TEST(RuleReader, ReadsACgroupByTheKernelsFiles) {
  const auto tree = kernel::CgroupTree::discover();
  ASSERT_TRUE(tree.ok());
  ScratchCgroup scratch;
  const std::string path = scratch.child("read");
  scratch.limit(path, mib(64));
  const Hog hog(scratch, path, mib(8));
  const auto directory = tree->open(path);
  ASSERT_TRUE(directory.ok());
  const std::string file = scratch.directory(path);
  const bool marked = ::setxattr(file.c_str(), "user.oomd_avoid", "1", 1, 0) == 0 ||
                      ::setxattr(file.c_str(), "trusted.oomd_avoid", "1", 1, 0) == 0;
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

std::vector<rulesets::RuleNeed> kills_below(const std::string& path, bool descend) {
  rulesets::Kill kill;
  kill.cgroups = {{{path.substr(1)}}};
  kill.recursive = descend;
  rulesets::Ruleset ruleset;
  ruleset.actions = {{"kill", kill}};
  return rulesets::needs_of({ruleset});
}

TEST(RuleSampleReader, ReadsOnlyWhatIsNamed) {
  const auto tree = kernel::CgroupTree::discover();
  ASSERT_TRUE(tree.ok());
  ScratchCgroup scratch;
  const std::string named = scratch.child("named");
  scratch.child("other");
  const Hog hog(scratch, named, mib(8));
  sources::RuleSampleReader reader(*tree);
  rulesets::MemoryAbove usage;
  usage.cgroups = {{{scratch.path().substr(1), "n*"}}};
  rulesets::Ruleset ruleset;
  ruleset.groups = {{"g", {{"usage", usage}}}};
  const auto read =
      reader.read(MonotonicTime(std::chrono::seconds(7)), rulesets::needs_of({ruleset}));
  ASSERT_EQ(read.cgroups.size(), 3U) << "the root, the parent and the named one";
  EXPECT_EQ(read.cgroups[2].path, named);
  EXPECT_GE(read.cgroups[2].current.value_or(0), mib(8).count);
  EXPECT_FALSE(read.cgroups[2].stat || read.cgroups[2].memory_pressure);
  EXPECT_FALSE(read.incomplete);
  EXPECT_THAT(reader.read({}, {}).cgroups, IsEmpty());
}

TEST(RuleSampleReader, ReadsWhetherACandidateHasProcesses) {
  const auto tree = kernel::CgroupTree::discover();
  ASSERT_TRUE(tree.ok());
  ScratchCgroup scratch;
  const std::string full = scratch.child("full/below");
  const std::string empty = scratch.child("empty");
  const Hog hog(scratch, full, mib(4));
  sources::RuleSampleReader reader(*tree);
  const auto read = reader.read({}, kills_below(scratch.path(), true));
  EXPECT_EQ(read.find(scratch.path() + "/full")->populated, true);
  EXPECT_EQ(read.find(empty)->populated, false);
}

// A tenant with a huge tree is one candidate, and neither its siblings nor their parent are.
TEST(RuleSampleReader, OnlyThePartThatIsTooLargeIsOneCandidate) {
  const auto tree = kernel::CgroupTree::discover();
  ASSERT_TRUE(tree.ok());
  ScratchCgroup scratch;
  for (std::size_t i = 0; i <= sources::RuleSelection::kDescendantsMax; ++i) {
    scratch.child("many/c" + std::to_string(i));
  }
  scratch.child("calm/part");
  sources::RuleSampleReader reader(*tree);
  const auto read = reader.read({}, kills_below(scratch.path(), true));
  const rulesets::Cgroup* many = read.find(scratch.path() + "/many");
  ASSERT_NE(many, nullptr);
  EXPECT_EQ(many->oom_group, true);
  EXPECT_TRUE(read.children(*many).empty());
  // Their siblings are candidates of their own.
  const rulesets::Cgroup* top = read.find(scratch.path());
  ASSERT_NE(top, nullptr);
  EXPECT_NE(top->oom_group, true);
  EXPECT_EQ(read.children(*top).size(), 2U);
  EXPECT_NE(read.find(scratch.path() + "/calm/part"), nullptr);
}

// The owner of a cgroup may set user.*, and must not rank others before it.
TEST(RuleSampleReader, AttributesOfAnotherOwnerDoNotCount) {
  const auto tree = kernel::CgroupTree::discover();
  ASSERT_TRUE(tree.ok());
  ScratchCgroup scratch;
  const std::string directory = scratch.directory(scratch.path());
  if (::setxattr(directory.c_str(), "user.oomd_avoid", "1", 1, 0) != 0) {
    GTEST_SKIP() << "not applicable: no user.* attributes on these cgroups; runs in guests with v2";
  }
  sources::RuleSampleReader reader(*tree);
  EXPECT_EQ(reader.read({}, kills_below(scratch.path(), false)).find(scratch.path())->xattrs.size(),
            1U);
  ASSERT_EQ(::chown(directory.c_str(), 12345, 12345), 0);
  EXPECT_THAT(reader.read({}, kills_below(scratch.path(), false)).find(scratch.path())->xattrs,
              IsEmpty());
}

}  // namespace
}  // namespace forestall::test
