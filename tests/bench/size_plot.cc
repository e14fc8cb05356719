// SPDX-License-Identifier: Apache-2.0
#include "size_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace forestall::test {
namespace {

constexpr int kPanelWidth = 480;
constexpr int kHeight = 380;
constexpr int kLeft = 60;
constexpr int kRight = 20;
constexpr int kTop = 120;
constexpr int kBottom = 40;
constexpr int kLabelHeight = 18;
constexpr const char* kColors[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd"};
constexpr const char* kDashes[] = {"none", "7 3", "2 3", "9 3 2 3"};

// A round number of which at most five make up `most`.
double round_step(double most) {
  constexpr double kSteps = 5;
  const double rough = most / kSteps;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double each : {1.0, 2.0, 5.0}) {
    if (each * power >= rough) return each * power;
  }
  return 10 * power;
}

double largest(const SizePanel& panel) {
  double most = 1e-3;
  for (const SizeLine& line : panel.lines) most = std::max(most, std::ranges::max(line.values));
  return most;
}

class PanelDrawing {
 public:
  PanelDrawing(const SizePlot& plot, const SizePanel& panel, int left)
      : plot_(plot), panel_(panel), left_(left), step_(round_step(largest(panel))) {
    top_ = std::ceil(largest(panel) / step_) * step_;
  }

  [[nodiscard]] std::string text() const {
    std::string out = fmt::format("<text x=\"{}\" y=\"20\" font-weight=\"bold\">{}</text>\n",
                                  left_ + kLeft, panel_.title);
    out += axes();
    for (std::size_t i = 0; i < panel_.lines.size(); ++i) out += line(i);
    return out;
  }

 private:
  [[nodiscard]] double x_of(int nodes) const {
    return left_ + kLeft +
           static_cast<double>(nodes) / plot_.nodes.back() * (kPanelWidth - kLeft - kRight);
  }
  [[nodiscard]] double y_of(double value) const {
    return kHeight - kBottom - value / top_ * (kHeight - kTop - kBottom);
  }

  [[nodiscard]] std::string axes() const {
    std::string out;
    for (int i = 0; i * step_ <= top_ * 1.001; ++i) {
      out += fmt::format(
          "<path d=\"M{0:.1f} {2:.1f}H{1:.1f}\" stroke=\"#ddd\"/><text x=\"{3}\" y=\"{4:.1f}\" "
          "text-anchor=\"end\">{5:g}</text>\n",
          x_of(0), x_of(plot_.nodes.back()), y_of(i * step_), left_ + kLeft - 6,
          y_of(i * step_) + 4, i * step_);
    }
    for (const int nodes : plot_.nodes) {
      if (nodes * 4 < plot_.nodes.back() && nodes != plot_.nodes.front()) continue;
      out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                         x_of(nodes), kHeight - 22, nodes);
    }
    return out + fmt::format(
                     "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"end\">nodes, {} pods each"
                     "</text>\n",
                     x_of(plot_.nodes.back()), kHeight - 6, plot_.pods_per_node);
  }

  [[nodiscard]] std::string line(std::size_t index) const {
    const SizeLine& line = panel_.lines[index];
    const char* const color = kColors[index % std::size(kColors)];
    const char* const dash = kDashes[index % std::size(kDashes)];
    const int y = 20 + kLabelHeight * (static_cast<int>(index) + 1);
    std::string out = fmt::format(
        "<path d=\"M{0} {1}h30\" stroke=\"{2}\" stroke-width=\"2\" stroke-dasharray=\"{3}\"/>"
        "<text x=\"{4}\" y=\"{5}\">{6}</text>\n<polyline fill=\"none\" stroke=\"{2}\" "
        "stroke-width=\"2\" stroke-dasharray=\"{3}\" points=\"",
        left_ + kLeft, y - 4, color, dash, left_ + kLeft + 38, y, line.label);
    for (std::size_t i = 0; i < plot_.nodes.size(); ++i) {
      out += fmt::format("{:.1f},{:.1f} ", x_of(plot_.nodes[i]), y_of(line.values[i]));
    }
    return out + "\"/>\n";
  }

  const SizePlot& plot_;
  const SizePanel& panel_;
  const int left_;
  const double step_;
  double top_ = 1;
};

}  // namespace

std::string size_table(const SizePlot& plot) {
  std::string out = "nodes\tpods";
  for (const SizePanel& panel : plot.panels) {
    for (const SizeLine& line : panel.lines) out += "\t" + line.name;
  }
  out += "\n";
  for (std::size_t i = 0; i < plot.nodes.size(); ++i) {
    out += fmt::format("{}\t{}", plot.nodes[i], plot.nodes[i] * plot.pods_per_node);
    for (const SizePanel& panel : plot.panels) {
      for (const SizeLine& line : panel.lines) out += fmt::format("\t{:.3f}", line.values[i]);
    }
    out += "\n";
  }
  return out;
}

std::string size_svg(const SizePlot& plot) {
  const auto width = static_cast<int>(plot.panels.size()) * kPanelWidth;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"13\"><rect width=\"{0}\" height=\"{1}\" "
      "fill=\"white\"/>\n",
      width, kHeight);
  for (std::size_t i = 0; i < plot.panels.size(); ++i) {
    out += PanelDrawing(plot, plot.panels[i], static_cast<int>(i) * kPanelWidth).text();
  }
  return out + "</svg>\n";
}

}  // namespace forestall::test
