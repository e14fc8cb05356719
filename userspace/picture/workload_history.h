// SPDX-License-Identifier: Apache-2.0
// Usage of the workloads over time, for a stacked chart: the largest individually, the rest as
// their sum.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "forestall/internal/picture.pb.h"
#include "model/workload.h"
#include "picture/table.h"

namespace forestall::picture {

// Thread rule: one thread.
class WorkloadHistory {
 public:
  // At most `lines_max` workloads have their own line: the largest so far. Rows closer than
  // `spacing` are merged.
  WorkloadHistory(std::size_t lines_max, std::size_t rows_max, Duration spacing);

  // Some workloads, as read for a decision: others keep their last value.
  void note(std::int64_t at_us, const std::vector<WorkloadSample>& samples);
  // All workloads.
  void replace(std::int64_t at_us, const std::vector<WorkloadSample>& samples);

  // The workload at `path` was removed. Returns the time of its last row: `at_us` or slightly
  // later.
  std::int64_t remove(std::int64_t at_us, const std::string& path);

  // Usage from then on is unknown until the next samples.
  void lose(std::int64_t at_us);

  void thin(std::size_t rows_wanted, const std::vector<std::int64_t>& moments,
            std::int64_t around_us);
  // The `drawn` workloads with the largest peak, as lines and names of `out`; the rest is `others`.
  // Rows after `after_us`.
  void put(internal::Picture& out, std::size_t drawn, std::int64_t after_us) const;

  // A workload's last value is valid for this time.
  static constexpr std::int64_t kAgeMaxUs = std::int64_t{5} * 60 * 1'000'000;

 private:
  struct Known {
    std::string name;
    std::size_t line = kRest;
    std::int64_t bytes = 0;  // at the last read
    std::int64_t greatest = 0;
    std::int64_t at_us = 0;
  };
  static constexpr std::size_t kRest = 0;  // line of the workloads without their own

  void take(std::int64_t at_us, const std::vector<WorkloadSample>& samples);
  void give_line(const std::string& path, Known& known);
  void add_row(std::int64_t at_us);

  std::size_t lines_max_;
  std::int64_t spacing_us_;
  ThinnedTable table_;
  std::unordered_map<std::string, Known> present_;  // by path
  // For each line: its workload, and its peak.
  struct Owner {
    std::string path;
    std::string name;
    std::int64_t greatest = 0;
  };
  std::vector<Owner> owners_;
  std::unordered_map<std::string, std::size_t> line_of_;  // by path, also of removed ones
  std::uint64_t rest_seen_ = 0;                           // most workloads in the rest at once
};

}  // namespace forestall::picture
