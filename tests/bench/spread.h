// SPDX-License-Identifier: Apache-2.0
// Median and quartiles of several measurements.
#pragma once

#include <algorithm>
#include <vector>

namespace forestall::test {

struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;
  double lower = 0;  // quartiles
  double upper = 0;
};

// REQUIRES: not empty.
inline Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](std::size_t percent) { return values[(values.size() - 1) * percent / 100]; };
  return {at(50), values.front(), values.back(), at(25), at(75)};
}

}  // namespace forestall::test
