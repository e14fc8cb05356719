// SPDX-License-Identifier: Apache-2.0
// The table of workloads: which rows it has, in which order, and what stands in each column.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "forestall/v1/top.pb.h"
#include "top/history.h"
#include "top/view.h"

namespace forestall::top {

// What one column is like.
struct ColumnShape {
  Column column = Column::order;
  std::string_view heading;
  int width = 0;       // cells; of name and why the least
  bool right = true;   // aligned to the right
  int importance = 0;  // those with the smallest go first where there is no room
};
[[nodiscard]] const std::vector<ColumnShape>& column_shapes();
// The columns that fit, in their order, with name and why as wide as is left. `points`: whether the
// kernel's points are of interest. `name_max`: the longest name, cells.
[[nodiscard]] std::vector<ColumnShape> fitting_columns(int width, bool points, int name_max);

// Indices into the report's workloads: filtered, then sorted. Equal ones keep the order of
// eviction. A filter matches a part of the name or the path, whatever its case.
[[nodiscard]] std::vector<int> rows_of(const v1::TopReport& report, const History& history,
                                       const View& view);

// Text of a cell. "-": there is nothing to tell, or it is not known.
[[nodiscard]] std::string cell_text(const v1::TopReport& report, int index, Column column,
                                    const History& history);

// Amounts in few cells: "96.0M", "1.5G", "512".
[[nodiscard]] std::string brief_bytes(std::int64_t bytes);

// Which values the comparators look at, and what they come to: of the next victim, or of the row
// that is selected.
[[nodiscard]] std::string explanation(const v1::TopReport& report, int index);

}  // namespace forestall::top
