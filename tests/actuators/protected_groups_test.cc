// SPDX-License-Identifier: Apache-2.0
#include "actuators/protected_groups.h"

#include <gtest/gtest.h>

namespace forestall::actuators {
namespace {

TEST(ProtectedGroupsTest, APathThatIsNewMayBeProtectedByAGlobOrWithOneAbove) {
  const ProtectedGroups groups({{CgroupId{1}, "/a", true}, {CgroupId{2}, "/b", false}},
                               {"/t/k*", "/u/*/x"});
  for (const char* path : {"/a", "/a/new", "/b", "/t/kept", "/t/kept/inside", "/u/1/x", "/u/1/x/y"})
    EXPECT_TRUE(groups.may_cover(path)) << path;
  for (const char* path : {"/", "/ab", "/b/inside", "/t", "/t/other", "/t/other/kept", "/u/1"})
    EXPECT_FALSE(groups.may_cover(path)) << path;
  EXPECT_FALSE(groups.cover("/t/kept")) << "no workload there is known";
}

}  // namespace
}  // namespace forestall::actuators
