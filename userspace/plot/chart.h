// SPDX-License-Identifier: Apache-2.0
// One chart: lines of a table of the picture, or stacked areas, over the picture's time, with marks
// for its moments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forestall/internal/picture.pb.h"
#include "plot/canvas.h"

namespace forestall::plot {

enum class AxisUnit : std::uint8_t { bytes, count, percent };  // percent: in thousandths

// "1.5 GiB", "12k", "3.2 %".
[[nodiscard]] std::string amount(AxisUnit unit, double value);

struct ChartLine {
  std::string name;  // in the table
  std::string label;
  Colour colour;
};

struct Chart {
  std::string title;
  AxisUnit unit = AxisUnit::bytes;
  const internal::Table* table = nullptr;
  std::vector<ChartLine> lines;
  bool stacked = false;
  const internal::Gauge* gauge = nullptr;  // its thresholds are drawn; null: none
  double least_top = 0;                    // the scale reaches at least this value
};

// `box` contains the chart with its title, legend and axes.
void draw(Canvas& canvas, const Box& box, const internal::Picture& picture, const Chart& chart);

}  // namespace forestall::plot
