// SPDX-License-Identifier: Apache-2.0
// How fast the available amount of each signal and subject falls, from the readings of the last
// evaluations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "model/decision.h"

namespace forestall::exports {

// Thread rule: the loop's. Allocates only when created.
class AvailableHistory {
 public:
  // The rate is that of this last part of the history; of the last two readings if they are
  // further apart.
  static constexpr Duration kWindow = std::chrono::seconds(30);
  // Over a shorter time than this a rate is noise.
  static constexpr Duration kSpanMin = std::chrono::seconds(1);

  explicit AvailableHistory(std::size_t series_max) { series_.reserve(series_max); }

  // Adds the reading. Units of the signal per second by which the available amount falls; negative:
  // it rises. Nullopt: unknown, because there is no earlier reading since the series began. It
  // begins again with a changed capacity, and while memory of a kill is being released.
  std::optional<double> fall_per_second(const Evidence& evidence);
  // Adds the reading. Seconds until the available amount reaches the threshold at the present
  // growth; 0 below it. Nullopt: the growth is unknown, or there is none.
  std::optional<double> seconds_to_threshold(const Evidence& evidence);
  // Ends the series that had no reading since the last call.
  void drop_unseen();

 private:
  static constexpr std::size_t kPointsMax = 16;
  static constexpr Duration kSpacing = kWindow / (kPointsMax - 1);

  struct Point {
    MonotonicTime at;
    std::int64_t available = 0;
  };
  struct Series {
    Signal signal{};
    CgroupId cgroup;
    std::int64_t capacity = 0;
    bool seen = false;
    std::size_t count = 0;
    std::array<Point, kPointsMax> points{};  // oldest first
  };

  Series* series_of(const Evidence& evidence);
  static void keep(Series& series, const Point& point);

  std::vector<Series> series_;
};

}  // namespace forestall::exports
