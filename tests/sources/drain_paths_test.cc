// SPDX-License-Identifier: Apache-2.0
#include "sources/drain_paths.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace forestall::sources {
namespace {

TEST(DrainPaths, ABurstInTwoCgroupsIsTwoLookups) {
  int lookups = 0;
  DrainPaths paths([&](CgroupId id) {
    ++lookups;
    return id.inode == 7 ? std::string("/domain") : std::string();
  });
  for (int kills = 0; kills < 800; ++kills) {
    EXPECT_EQ(paths.find(CgroupId{7}), "/domain");
    EXPECT_EQ(paths.find(CgroupId{8}), "") << "gone, and requested once";
    EXPECT_EQ(paths.find(CgroupId{}), "");
  }
  EXPECT_EQ(lookups, 2);
}

TEST(DrainPaths, LookupsAreBounded) {
  std::size_t lookups = 0;
  DrainPaths paths([&](CgroupId) {
    ++lookups;
    return std::string("/some");
  });
  for (std::uint64_t id = 1; id <= DrainPaths::kLookupsMax; ++id) {
    EXPECT_EQ(paths.find(CgroupId{id}), "/some");
  }
  EXPECT_EQ(paths.find(CgroupId{1000}), "");
  EXPECT_EQ(paths.find(CgroupId{1}), "/some");
  EXPECT_EQ(lookups, DrainPaths::kLookupsMax);
}

}  // namespace
}  // namespace forestall::sources
