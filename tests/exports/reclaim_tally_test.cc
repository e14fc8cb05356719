// SPDX-License-Identifier: Apache-2.0
#include "exports/reclaim_tally.h"

#include <gtest/gtest.h>

#include <string>

namespace forestall::exports {
namespace {

TEST(ReclaimTally, CountsByRulesetAndCgroup) {
  ReclaimTally tally;
  tally.add_write("r", "/a", mib(3), false);
  tally.add_write("r", "/a", Bytes{}, true);
  tally.add_back_off("r", "/a");
  tally.add_dropped("r", "/a");
  tally.add_write("s", "/a", mib(1), false);
  const auto all = tally.all();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0], (RulesetReclaimCounts{"r", "/a", 2, mib(3), 1, 1, 1}));
  EXPECT_EQ(all[1], (RulesetReclaimCounts{"s", "/a", 1, mib(1), 0, 0, 0}));
}

// Pods come and go, and each has a cgroup of its own.
TEST(ReclaimTally, CgroupsBeyondTheLimitAreCountedTogether) {
  ReclaimTally tally;
  for (std::size_t i = 0; i < 3 * ReclaimTally::kCgroupsMax; ++i) {
    tally.add_write(i % 2 == 0 ? "r" : "s", "/" + std::to_string(i), mib(1), false);
  }
  const auto all = tally.all();
  ASSERT_EQ(all.size(), ReclaimTally::kCgroupsMax + 2) << "and the others of each ruleset";
  EXPECT_EQ(all[ReclaimTally::kCgroupsMax],
            (RulesetReclaimCounts{"r", "", ReclaimTally::kCgroupsMax,
                                  mib(ReclaimTally::kCgroupsMax), 0, 0, 0}));
}

}  // namespace
}  // namespace forestall::exports
