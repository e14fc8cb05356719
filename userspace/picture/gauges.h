// SPDX-License-Identifier: Apache-2.0
// What was available of each signal's amount over time, and the thresholds it was held against.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "forestall/v1/picture.pb.h"
#include "model/decision.h"
#include "picture/table.h"

namespace forestall::picture {

// Thread rule: one thread.
class Gauges {
 public:
  // More than `gauges_max` subjects are counted, not kept: a node can have a threshold on each of
  // ten thousand workloads.
  Gauges(std::size_t gauges_max, std::size_t rows_max)
      : gauges_max_(gauges_max), rows_max_(rows_max) {}

  void take(std::int64_t at_us, const std::vector<Evidence>& evidence);
  void thin(std::size_t rows_wanted, const std::vector<std::int64_t>& moments,
            std::int64_t around_us);
  // The node's, and those that came nearest to a threshold, `drawn` together.
  void put(v1::Picture& out, std::size_t drawn, std::int64_t after_us) const;

 private:
  struct Gauge {
    explicit Gauge(std::size_t rows_max) : table(Thinning::each_line, rows_max) {
      table.add_line("available");
    }
    v1::Gauge facts;  // all but the table
    Table table;
    // Least of available / limit so far: below 1, the threshold was met.
    double nearest = 1e300;
  };
  using Key = std::pair<Signal, std::string>;

  [[nodiscard]] Gauge* find(const Evidence& evidence);
  static void take_threshold(Gauge& gauge, std::int64_t at_us, const Evidence& evidence);

  std::size_t gauges_max_;
  std::size_t rows_max_;
  std::map<Key, Gauge> gauges_;
  std::uint64_t refused_ = 0;  // most subjects at once that there was no room for
};

}  // namespace forestall::picture
