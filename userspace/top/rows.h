// SPDX-License-Identifier: Apache-2.0
// The table of workloads: its rows, their order, and the text of each cell.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "forestall/internal/top.pb.h"
#include "top/history.h"
#include "top/view.h"

namespace forestall::top {

// Layout of a column.
struct ColumnShape {
  Column column = Column::order;
  std::string_view heading;
  int width = 0;       // cells; a minimum for name and why
  bool right = true;   // aligned to the right
  int importance = 0;  // the least important are omitted first
};
[[nodiscard]] const std::vector<ColumnShape>& column_shapes();
// The columns that fit, in their order; name and why share the remaining width. `points`: show the
// kernel's points. `stalls`: a workload has a stall time, which needs BPF. `name_max`: cells of the
// longest name.
[[nodiscard]] std::vector<ColumnShape> fitting_columns(int width, bool points, bool stalls,
                                                       int name_max);

// Indices into the report's workloads, filtered and sorted. Equal rows keep the eviction order. A
// filter matches part of the name or path, regardless of case.
[[nodiscard]] std::vector<int> rows_of(const internal::TopReport& report, const History& history,
                                       const View& view);

// Text of a cell. "-": no value.
[[nodiscard]] std::string cell_text(const internal::TopReport& report, int index, Column column,
                                    const History& history);

// Short amounts: "96.0M", "1.5G", "512".
[[nodiscard]] std::string brief_bytes(std::int64_t bytes);

// Explains the rank of a workload: the compared values and their result.
[[nodiscard]] std::string explanation(const internal::TopReport& report, int index);

}  // namespace forestall::top
