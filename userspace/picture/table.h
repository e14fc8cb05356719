// SPDX-License-Identifier: Apache-2.0
// Lines over shared times, thinned as they grow: what a screen cannot tell apart is not kept, and
// no extreme is lost.
//
// Rows are thinned by their number, not by time. An agent looks often when something happens and
// seldom else, so that groups of equally many rows are short where there is something to see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forestall/v1/picture.pb.h"

namespace forestall::picture {

enum class Thinning : std::uint8_t {
  each_line,  // keeps the least and the greatest value of every line
  sum,        // keeps the rows with the least and the greatest sum: for lines that are stacked
};

// Thread rule: one thread.
class Table {
 public:
  // More rows than `rows_max` are thinned to about half of it at once. REQUIRES: rows_max >= 8.
  Table(Thinning thinning, std::size_t rows_max) : thinning_(thinning), rows_max_(rows_max) {}

  // Index of a new line, unknown so far.
  std::size_t add_line(std::string name);
  [[nodiscard]] std::size_t lines() const { return lines_.size(); }
  [[nodiscard]] const std::string& name(std::size_t line) const { return lines_[line].name; }

  // A row in which everything is unknown, for set(). A time before that of the last row counts as
  // that: a clock may be set back.
  void add_row(std::int64_t at_us);
  // In the last row. REQUIRES: there is one.
  void set(std::size_t line, std::int64_t value) { lines_[line].values.back() = value; }
  // Makes everything in the last row unknown again. REQUIRES: there is one.
  void clear_row();
  // Adds what `from` has to `to`; `from` is then another one's line, unknown so far.
  void move_line(std::size_t from, std::size_t to, std::string new_name);

  [[nodiscard]] std::size_t rows() const { return at_us_.size(); }
  [[nodiscard]] std::uint64_t rows_read() const { return rows_read_; }
  [[nodiscard]] std::int64_t at_us(std::size_t row) const { return at_us_[row]; }
  // Nothing: unknown.
  [[nodiscard]] std::optional<std::int64_t> value(std::size_t line, std::size_t row) const;

  // Thins to at most about `rows_wanted`; rows within `around_us` of a time in `moments` (which
  // ascend) stay, if they are not most of them.
  void thin(std::size_t rows_wanted, std::span<const std::int64_t> moments, std::int64_t around_us);

  // Rows behind `after_us`.
  void put(v1::Table& out, std::int64_t after_us = std::numeric_limits<std::int64_t>::min()) const;

 private:
  static constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::min();
  struct Values {
    std::string name;
    std::vector<std::int64_t> values;
  };
  // Where groups of rows begin; the last one is the number of rows.
  [[nodiscard]] std::vector<std::size_t> groups(std::size_t size,
                                                std::span<const std::int64_t> moments,
                                                std::int64_t around_us) const;
  void merge(const std::vector<std::size_t>& groups);
  void merge_line(std::vector<std::int64_t>& values, const std::vector<std::size_t>& groups) const;
  [[nodiscard]] std::vector<std::size_t> extreme_sums(const std::vector<std::size_t>& groups) const;

  Thinning thinning_;
  std::size_t rows_max_;
  std::vector<std::int64_t> at_us_;
  std::vector<Values> lines_;
  std::uint64_t rows_read_ = 0;
};

}  // namespace forestall::picture
