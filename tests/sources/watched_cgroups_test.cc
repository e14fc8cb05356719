// SPDX-License-Identifier: Apache-2.0
#include "sources/watched_cgroups.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace forestall::sources {
namespace {

using Paths = std::vector<std::string>;

MatchedCgroup of(std::string_view glob, const std::string& path, std::uint64_t inode) {
  return {path, share_of(glob, path), inode};
}

TEST(WatchedCgroups, AShareEndsAtTheFirstComponentThatTheGlobLeavesOpen) {
  EXPECT_EQ(share_of("/tenants/*/*", "/tenants/a/job7"), "/tenants/a");
  EXPECT_EQ(share_of("/tenants/team-*/x", "/tenants/team-b/x"), "/tenants/team-b");
  EXPECT_EQ(share_of("/system.slice/db.service", "/system.slice/db.service"),
            "/system.slice/db.service");
  EXPECT_EQ(share_of("/*", "/a"), "/a");
  EXPECT_EQ(share_of("*/x", "/a/x"), "/a/x");
}

TEST(WatchedCgroups, ATenantWithThousandsLeavesTheOthersTheirs) {
  constexpr std::string_view kGlob = "/tenants/*/*";
  std::vector<MatchedCgroup> matched;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    matched.push_back(of(kGlob, fmt::format("/tenants/aggressor/{}", i), 100 + i));
  }
  matched.push_back(of(kGlob, "/tenants/calm/one", 9000));
  matched.push_back(of(kGlob, "/tenants/calm/two", 9001));
  matched.push_back(of("/system.slice/db.service", "/system.slice/db.service", 9002));
  EXPECT_EQ(fair_choice(matched, 6),
            (Paths{"/system.slice/db.service", "/tenants/aggressor/0", "/tenants/aggressor/1",
                   "/tenants/aggressor/2", "/tenants/calm/one", "/tenants/calm/two"}));
}

TEST(WatchedCgroups, ANewCgroupDisplacesNoOlderOne) {
  std::vector<MatchedCgroup> matched;
  for (const auto& [name, inode] : {std::pair("z", 1), std::pair("y", 2), std::pair("a", 3)}) {
    matched.push_back(of("/w/*", fmt::format("/w/{}", name), static_cast<std::uint64_t>(inode)));
  }
  EXPECT_EQ(fair_choice(matched, 2), (Paths{"/w/y", "/w/z"}));
  EXPECT_EQ(fair_choice(matched, 3), (Paths{"/w/a", "/w/y", "/w/z"}));
  EXPECT_EQ(fair_choice(matched, 0), Paths());
}

}  // namespace
}  // namespace forestall::sources
