// SPDX-License-Identifier: Apache-2.0
#include "cluster/cycle_plan.h"

#include <gtest/gtest.h>

#include "support/manual_clock.h"

namespace forestall::cluster {
namespace {

TEST(CyclePlan, IsMadeAgainWithinBounds) {
  test::ManualClock clock;
  RefusedPods refused;
  CyclePlan often({}, {}, {}, {});
  int made = 0;
  do {
    EXPECT_TRUE(often.make(refused, clock.now()).evictions.empty());
    ++made;
  } while (often.may_make_again() && made < 1000);
  EXPECT_EQ(made, CyclePlan::kAgainMax + 1);
  CyclePlan slow({}, {}, {}, {});
  EXPECT_TRUE(slow.make(refused, clock.now()).evictions.empty());
  slow.took(CyclePlan::kAgainLongest - Duration(1));
  EXPECT_TRUE(slow.may_make_again());
  slow.took(Duration(1));
  EXPECT_FALSE(slow.may_make_again());
}

}  // namespace
}  // namespace forestall::cluster
