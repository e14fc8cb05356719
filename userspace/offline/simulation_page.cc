// SPDX-License-Identifier: Apache-2.0
#include "offline/simulation_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace forestall::cli {
namespace {

using rebalance::SimulationPoint;
using rebalance::SimulationRun;

constexpr int kWidth = 560;
constexpr int kHeight = 240;
constexpr int kLeft = 56;
constexpr int kRight = 12;
constexpr int kTop = 12;
constexpr int kBottom = 30;
constexpr std::int64_t kHourSeconds = 3600;
// Distinct also for most colour-blind readers; lines differ in their dashes as well.
constexpr std::array<const char*, 6> kColours{"#4e5766", "#d1495b", "#2e86ab",
                                              "#e0912f", "#7b5ea7", "#3c8d5a"};
constexpr std::array<const char*, 4> kDashes{"", "7 3", "2 3", "9 3 2 3"};

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1c2430; --faint: #d5dae1; --paper: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --faint: #39424f; --paper: #14181e; } }
body { margin: 2rem auto; max-width: 1200px; padding: 0 1rem; background: var(--paper);
       color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1rem; margin: 0 0 .25rem; }
p { margin: 0 0 1rem; } table { border-collapse: collapse; margin: 1rem 0 2rem; }
th, td { padding: .3rem .9rem; text-align: right; border-bottom: 1px solid var(--faint); }
th:first-child, td:first-child { text-align: left; white-space: nowrap; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(460px, 1fr)); gap: 1.5rem; }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 12px; }
.grid { stroke: var(--faint); } .line { fill: none; stroke-width: 1.8; }
.key { display: inline-block; margin-right: .5rem; vertical-align: middle; width: 34px; }
)";

std::string escaped_html(std::string_view text) {
  std::string out;
  for (const char each : text) {
    switch (each) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += each;
    }
  }
  return out;
}

std::string stroke_of(std::size_t run) {
  return fmt::format(R"(stroke="{}" stroke-dasharray="{}")", kColours[run % kColours.size()],
                     kDashes[run % kDashes.size()]);
}

// A round number of which at most five make up `most`.
double step_of(double most) {
  constexpr double kSteps = 5;
  const double rough = std::max(most / kSteps, 1.0);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double each : {1.0, 2.0, 5.0}) {
    if (each * power >= rough) return each * power;
  }
  return 10 * power;
}

struct PlotRow {
  const char* title;
  std::uint64_t (*value)(const SimulationPoint&);
};

constexpr PlotRow kPlotRows[] = {
    {"Hot nodes: less than a tenth of the memory available",
     [](const SimulationPoint& each) { return each.hot_nodes; }},
    {"Evictions by the kubelet and kills by the kernel, since the start",
     [](const SimulationPoint& each) { return each.evictions + each.kills; }},
    {"Moves by the policy, since the start",
     [](const SimulationPoint& each) { return each.moves; }},
    {"Loops: moves of a pod moved less than an hour before",
     [](const SimulationPoint& each) { return each.loops; }},
};

std::string plot_section(const PlotRow& row, std::span<const SimulationRun> runs) {
  double most = 1;
  double end = 1;
  for (const SimulationRun& run : runs) {
    for (const SimulationPoint& each : run.points) {
      most = std::max(most, static_cast<double>(row.value(each)));
      end = std::max(end, static_cast<double>(each.seconds));
    }
  }
  const double step = step_of(most);
  const double top = std::ceil(most / step) * step;
  const auto x_of = [&](double seconds) {
    return kLeft + seconds / end * (kWidth - kLeft - kRight);
  };
  const auto y_of = [&](double value) {
    return kHeight - kBottom - value / top * (kHeight - kTop - kBottom);
  };
  std::string out = fmt::format("<section><h2>{}</h2><svg viewBox=\"0 0 {} {}\" role=\"img\">\n",
                                row.title, kWidth, kHeight);
  for (double value = 0; value <= top; value += step) {
    out += fmt::format(R"(<line class="grid" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/>)"
                       R"(<text x="{3}" y="{4:.1f}" text-anchor="end">{5:.0f}</text>)"
                       "\n",
                       kLeft, kWidth - kRight, y_of(value), kLeft - 6, y_of(value) + 4, value);
  }
  const double hours = end / kHourSeconds;
  const double every = step_of(hours);
  for (double hour = 0; hour <= hours; hour += every) {
    out += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{:.0f} h</text>)"
                       "\n",
                       x_of(hour * kHourSeconds), kHeight - 10, hour);
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    out += fmt::format(R"(<polyline class="line" {} points=")", stroke_of(i));
    for (const SimulationPoint& each : runs[i].points) {
      out += fmt::format("{:.1f},{:.1f} ", x_of(static_cast<double>(each.seconds)),
                         y_of(static_cast<double>(row.value(each))));
    }
    out += "\"/>\n";
  }
  return out + "</svg></section>\n";
}

std::string table_of(std::span<const SimulationRun> runs) {
  std::string out =
      "<table><tr><th>policy</th><th>hot node minutes</th><th>evictions by the kubelet</th>"
      "<th>kills by the kernel</th><th>moves</th><th>loops</th><th>refused moves</th></tr>\n";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const SimulationPoint last = runs[i].points.empty() ? SimulationPoint() : runs[i].points.back();
    out += fmt::format(
        R"(<tr><td><svg class="key" viewBox="0 0 34 8"><line x1="0" x2="34" y1="4" y2="4" )"
        R"(class="line" {}/></svg>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>)"
        "<td>{}</td></tr>\n",
        stroke_of(i), escaped_html(runs[i].name), runs[i].hot_node_minutes, last.evictions,
        last.kills, last.moves, last.loops, runs[i].refused);
  }
  return out + "</table>\n";
}

}  // namespace

std::string simulation_page(const rebalance::SimulationOptions& options,
                            std::span<const SimulationRun> runs) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<title>Simulated rebalancing</title><style>{}</style></head><body>\n"
      "<h1>Simulated rebalancing</h1>\n<p>{} nodes, {} pods, {} hours, a plan every {} s, seed "
      "{}{}. Nodes, pods and the scheduler are a model; forestall(8) describes it.</p>\n",
      kStyle, options.nodes, options.nodes * options.pods_per_node, options.hours,
      options.interval_seconds, options.seed,
      options.placeholders ? "; replacements run where room was booked" : "");
  out += table_of(runs);
  out += "<div class=\"plots\">\n";
  for (const PlotRow& each : kPlotRows) out += plot_section(each, runs);
  return out + "</div>\n</body></html>\n";
}

}  // namespace forestall::cli
