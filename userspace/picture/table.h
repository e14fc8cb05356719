// SPDX-License-Identifier: Apache-2.0
// Lines over shared times, thinned as they grow. Details that a screen cannot show are dropped, but
// no extreme value is.
//
// Rows are thinned by number, not by time. An agent evaluates often during events and rarely
// otherwise, so groups of equally many rows are short when there is something to see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forestall/internal/picture.pb.h"

namespace forestall::picture {

enum class Thinning : std::uint8_t {
  each_line,  // keeps the smallest and the largest value of every line
  sum,        // keeps the rows with the smallest and the largest sum: for stacked lines
};

// Thread rule: one thread.
class ThinnedTable {
 public:
  // More than `rows_max` rows are thinned to about half of it. REQUIRES: rows_max >= 8.
  ThinnedTable(Thinning thinning, std::size_t rows_max)
      : thinning_(thinning), rows_max_(rows_max) {}

  // Adds a line without values and returns its index.
  std::size_t add_line(std::string name);
  [[nodiscard]] std::size_t lines() const { return lines_.size(); }
  [[nodiscard]] const std::string& name(std::size_t line) const { return lines_[line].name; }

  // Adds a row without values, for set(). A time before that of the last row is replaced by it: a
  // clock may be set back.
  void add_row(std::int64_t at_us);
  // Sets a value of the last row. REQUIRES: there is one.
  void set(std::size_t line, std::int64_t value) { lines_[line].values.back() = value; }
  // Ends all lines: adds a row without values, unless the last one has none. Thinning keeps it.
  void break_lines(std::int64_t at_us);
  // Removes all values of the last row. REQUIRES: there is one.
  void clear_row();
  // Adds the values of `from` to `to`; `from` then becomes a line without values, with a new name.
  void move_line(std::size_t from, std::size_t to, std::string new_name);

  [[nodiscard]] std::size_t rows() const { return at_us_.size(); }
  [[nodiscard]] std::uint64_t rows_read() const { return rows_read_; }
  [[nodiscard]] std::int64_t at_us(std::size_t row) const { return at_us_[row]; }
  // Nothing: unknown.
  [[nodiscard]] std::optional<std::int64_t> value(std::size_t line, std::size_t row) const;

  // Thins to about `rows_wanted` rows at most. Rows within `around_us` of a time in `moments`
  // (ascending) are kept, unless they are most of the rows.
  void thin(std::size_t rows_wanted, std::span<const std::int64_t> moments, std::int64_t around_us);

  // The rows after `after_us`.
  void put(internal::Table& out,
           std::int64_t after_us = std::numeric_limits<std::int64_t>::min()) const;

 private:
  static constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::min();
  struct Values {
    std::string name;
    std::vector<std::int64_t> values;
  };
  // Start indices of groups of rows; the last one is the number of rows.
  [[nodiscard]] std::vector<std::size_t> groups(std::size_t size,
                                                std::span<const std::int64_t> moments,
                                                std::int64_t around_us) const;
  [[nodiscard]] bool is_blank(std::size_t row) const;
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
