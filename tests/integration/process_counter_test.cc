// SPDX-License-Identifier: Apache-2.0
// Counting processes through held descriptors: what comes and goes shows at once, on cgroup v1 as
// well, where the kernel keeps a list for whoever has just read it.
#include "sources/process_counter.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace forestall::test
