// SPDX-License-Identifier: Apache-2.0
// Measurements against the size of a cluster, as tab-separated values and as SVG.
#pragma once

#include <string>
#include <vector>

namespace forestall::test {

struct SizeLine {
  std::string name;            // column of the table
  std::string label;           // in the plot
  std::vector<double> values;  // one for each size
};

// Lines of one unit, which share a scale.
struct SizePanel {
  std::string title;
  std::vector<SizeLine> lines;
};

struct SizePlot {
  std::vector<int> nodes;  // ascending
  int pods_per_node = 0;
  std::vector<SizePanel> panels;
};

[[nodiscard]] std::string size_table(const SizePlot& plot);
// A panel beside the other, from 0 to a round number.
[[nodiscard]] std::string size_svg(const SizePlot& plot);

}  // namespace forestall::test
