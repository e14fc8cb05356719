// SPDX-License-Identifier: Apache-2.0
// Random choices for property tests, reproducible from the seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace forestall::policy {

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : random_(seed) {}
  std::int64_t below(std::int64_t n) {
    return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random_);
  }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <typename T>
  void shuffle(std::vector<T>& items) {
    std::shuffle(items.begin(), items.end(), random_);
  }

 private:
  std::mt19937 random_;
};

}  // namespace forestall::policy
