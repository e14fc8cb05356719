// SPDX-License-Identifier: Apache-2.0
// Counting processes through held descriptors: starts and exits show at once, also on cgroup v1,
// where the kernel caches the list for its last reader.
#include "sources/process_counter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

TEST(ProcessCounter, ANewcomerCountsAtOnceAndSoDoesAnExit) {
  const auto tree = kernel::CgroupTree::discover();
  ASSERT_TRUE(tree.ok());
  ScratchCgroup scratch;
  const std::string path = scratch.child("counted/below");
  const auto cgroup = tree->open(scratch.path() + "/counted");
  ASSERT_TRUE(cgroup.ok());
  sources::ProcessCounter counter(*cgroup);
  std::string buffer;
  EXPECT_EQ(counter.count(*cgroup, buffer).value(), 0U);
  Hog first(scratch, path, mib(1));
  EXPECT_EQ(counter.count(*cgroup, buffer).value(), 1U);
  const Hog second(scratch, path, mib(1));
  EXPECT_EQ(counter.count(*cgroup, buffer).value(), 2U);
  first.child().reap();
  EXPECT_EQ(counter.count(*cgroup, buffer).value(), 1U);
}

class ManyGroups : public ::testing::Test {
 protected:
  void make(std::size_t groups) {
    for (std::size_t i = 0; i < groups; ++i) scratch.child(name(i));
  }
  [[nodiscard]] static std::string name(std::size_t i) { return "counted/" + std::to_string(i); }
  [[nodiscard]] kernel::CgroupDir counted() const {
    return tree.value().open(scratch.path() + "/counted").value();
  }
  Result<kernel::CgroupTree> tree = kernel::CgroupTree::discover();
  ScratchCgroup scratch;
  std::string buffer;
};

TEST_F(ManyGroups, AreCountedWithoutADescriptorForEach) {
  constexpr std::size_t kMany = sources::ProcessCounter::kGroupsMax + 8;
  make(kMany);
  const auto cgroup = counted();
  sources::ProcessCounter counter(cgroup);
  EXPECT_EQ(counter.descriptors(), 0U);
  const Hog first(scratch, scratch.path() + "/" + name(0), mib(1));
  const Hog last(scratch, scratch.path() + "/" + name(kMany - 1), mib(1));
  EXPECT_EQ(counter.count(cgroup, buffer).value(), 2U);
  EXPECT_EQ(counter.descriptors(), 0U);
  // Few again: the next count finds it, and the one after that uses held descriptors.
  for (std::size_t i = 1; i + 1 < kMany; ++i) {
    scratch.remove_child(scratch.path() + "/" + name(i));
  }
  EXPECT_EQ(counter.count(cgroup, buffer).value(), 2U);
  EXPECT_EQ(counter.count(cgroup, buffer).value(), 2U);
  EXPECT_EQ(counter.descriptors(), 2U * 3U);
}

TEST_F(ManyGroups, DropsTheResultOfAFailedWalk) {
  make(32);
  const auto cgroup = counted();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const UniqueFd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const rlimit little{static_cast<rlim_t>(next.get()) + 16, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &little), 0);
  sources::ProcessCounter counter(cgroup);
  const auto failed = counter.count(cgroup, buffer);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, EMFILE);
  EXPECT_EQ(counter.descriptors(), 0U);
  EXPECT_EQ(counter.count(cgroup, buffer).value(), 0U);
}

}  // namespace
}  // namespace forestall::test
