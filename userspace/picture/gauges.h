// SPDX-License-Identifier: Apache-2.0
// The available amount of each signal over time, and its thresholds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "forestall/internal/picture.pb.h"
#include "model/decision.h"
#include "picture/table.h"

namespace forestall::picture {

// Thread rule: one thread.
class Gauges {
 public:
  // Subjects beyond `gauges_max` are only counted: a node may have a threshold on each of ten
  // thousand workloads.
  Gauges(std::size_t gauges_max, std::size_t rows_max)
      : gauges_max_(gauges_max), rows_max_(rows_max) {}

  void take(std::int64_t at_us, const std::vector<Evidence>& evidence);
  // Values from then on are unknown until the next ones.
  void lose(std::int64_t at_us);
  void thin(std::size_t rows_wanted, const std::vector<std::int64_t>& moments,
            std::int64_t around_us);
  // The node's gauges, and those closest to a threshold, up to `drawn`.
  void put(internal::Picture& out, std::size_t drawn, std::int64_t after_us) const;

 private:
  struct Gauge {
    explicit Gauge(std::size_t rows_max) : table(Thinning::each_line, rows_max) {
      table.add_line("available");
    }
    internal::Gauge facts;  // without the table
    ThinnedTable table;
    // Smallest ratio of available to limit: below 1, the threshold was met.
    double nearest = 1e300;
  };
  using Key = std::pair<Signal, std::string>;

  [[nodiscard]] Gauge* find(const Evidence& evidence);
  static void take_threshold(Gauge& gauge, std::int64_t at_us, const Evidence& evidence);

  std::size_t gauges_max_;
  std::size_t rows_max_;
  std::map<Key, Gauge> gauges_;
  std::uint64_t refused_ = 0;  // most subjects beyond the limit at once
};

}  // namespace forestall::picture
