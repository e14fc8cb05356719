// SPDX-License-Identifier: Apache-2.0
// The same rule in the PNG (plot/label_place.h) and in the page (Browser.report).
#include "plot/label_place.h"

#include <gtest/gtest.h>

namespace forestall::plot {
namespace {

TEST(LabelPlace, IsAtTheRightEdgeWithoutLines) {
  EXPECT_EQ(free_right({}, 0, 1000, 100), 1000);
  EXPECT_EQ(free_right({10, 500, 890, 1010}, 0, 1000, 100), 1000);
}

TEST(LabelPlace, IsLeftOfTheLinesThatWouldCrossIt) {
  EXPECT_EQ(free_right({990}, 0, 1000, 100), 986);
  EXPECT_EQ(free_right({990, 920}, 0, 1000, 100), 916);
  EXPECT_EQ(free_right({920, 990, 700}, 0, 1000, 100), 916);
}

TEST(LabelPlace, StaysAtTheRightEdgeIfLinesAreEverywhere) {
  std::vector<double> lines;
  for (double x = 0; x < 1000; x += 50) lines.push_back(x);
  EXPECT_EQ(free_right(lines, 0, 1000, 100), 1000);
}

}  // namespace
}  // namespace forestall::plot
