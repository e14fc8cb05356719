// SPDX-License-Identifier: Apache-2.0
// Where the label of a threshold is drawn.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

namespace forestall::plot {

// The right edge of a label of this width, between `left` and `right`, that none of the vertical
// lines crosses: as far right as possible, or `right` if there is no such place.
[[nodiscard]] inline double free_right(std::vector<double> lines, double left, double right,
                                       double width) {
  constexpr double kGap = 4;
  std::ranges::sort(lines, std::greater());
  double edge = right;
  for (const double x : lines) {
    if (x - kGap < edge && x + kGap > edge - width) edge = x - kGap;
  }
  return edge - width < left ? right : edge;
}

}  // namespace forestall::plot
