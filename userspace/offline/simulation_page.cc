// SPDX-License-Identifier: Apache-2.0
#include "offline/simulation_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "offline/simulation_report.h"

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
constexpr int kLabelHalf = 28;  // of the width of a label
constexpr double kMinuteSeconds = 60;
constexpr double kHourSeconds = 3600;
constexpr double kShortSeconds = 3 * kHourSeconds;  // below it, times are in minutes
constexpr std::size_t kStrokes = 6;                 // classes run0 to run5

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1c2430; --faint: #d5dae1; --paper: #fff;
        --run0: #4e5766; --run1: #c9394d; --run2: #2a7ba3; --run3: #b5690e; --run4: #7b5ea7;
        --run5: #2f7d4d; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --faint: #39424f; --paper: #14181e;
          --run0: #a9b3c2; --run1: #f0727f; --run2: #5db4d8; --run3: #f0a94a; --run4: #b79ae0;
          --run5: #6cc48c; } }
body { margin: 2rem auto; max-width: 1200px; padding: 0 1rem; background: var(--paper);
       color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1rem; margin: 0 0 .25rem; }
p { margin: 0 0 1rem; } table { border-collapse: collapse; }
.table { overflow-x: auto; margin: 1rem 0 2rem; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid var(--faint); }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 10rem;
                                 overflow-wrap: anywhere; }
.plots { display: grid; gap: 1.5rem;
         grid-template-columns: repeat(auto-fit, minmax(min(460px, 100%), 1fr)); }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 12px; }
@media (max-width: 600px) { svg text { font-size: 16px; } }
.grid { stroke: var(--faint); } .zero { stroke: var(--ink); }
.line { fill: none; stroke-width: 1.8; stroke-linecap: round; }
/* Distinct also for most colour-blind readers; lines differ in their dashes as well. */
.run0 { stroke: var(--run0); } .run1 { stroke: var(--run1); stroke-dasharray: 7 3; }
.run2 { stroke: var(--run2); stroke-dasharray: 2 3; }
.run3 { stroke: var(--run3); stroke-dasharray: 9 3 2 3; }
.run4 { stroke: var(--run4); } .run5 { stroke: var(--run5); stroke-dasharray: 7 3; }
/* Nodes without a measurement. */
.band { stroke: none; fill-opacity: .12; } .band.run0 { fill: var(--run0); }
.band.run1 { fill: var(--run1); } .band.run2 { fill: var(--run2); }
.band.run3 { fill: var(--run3); } .band.run4 { fill: var(--run4); }
.band.run5 { fill: var(--run5); }
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

std::string line_class(std::size_t run) {
  return fmt::format("line run{}", run % kStrokes);
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

// Nothing: unknown.
std::optional<double> number(const std::optional<std::uint64_t>& count) {
  return count ? std::optional(static_cast<double>(*count)) : std::nullopt;
}

std::optional<double> number(const std::optional<std::int64_t>& count) {
  return count ? std::optional(static_cast<double>(*count)) : std::nullopt;
}

struct PlotRow {
  const char* title;
  // `unmoved`: the point at the same time of the run in which nothing is moved. Nothing: unknown.
  std::optional<double> (*value)(const SimulationPoint& unmoved, const SimulationPoint& point);
  // How much more it may be. Null: it is exact.
  double (*uncertainty)(const SimulationPoint& point) = nullptr;
  bool of_trace_only = false;
};

constexpr PlotRow kPlotRows[] = {
    {"Hot nodes: less than a tenth of the memory available",
     [](const SimulationPoint&, const SimulationPoint& each) { return number(each.hot_nodes); },
     [](const SimulationPoint& each) { return static_cast<double>(each.unknown_nodes); }},
    {"Hot nodes of those that every run measures",
     [](const SimulationPoint&, const SimulationPoint& each) {
       return number(each.compared_hot_nodes);
     },
     nullptr, true},
    {"Evictions by the kubelet and kills by the kernel, since the start",
     [](const SimulationPoint&, const SimulationPoint& each) -> std::optional<double> {
       if (!each.evictions || !each.kills) return std::nullopt;
       return static_cast<double>(*each.evictions + *each.kills);
     }},
    {"Evictions by the kubelet avoided, since the start",
     [](const SimulationPoint& unmoved, const SimulationPoint& each) {
       return number(avoided(unmoved, each, &SimulationPoint::evictions));
     }},
    {"Kills by the kernel avoided, since the start",
     [](const SimulationPoint& unmoved, const SimulationPoint& each) {
       return number(avoided(unmoved, each, &SimulationPoint::kills));
     }},
    {"Moves by the policy, since the start",
     [](const SimulationPoint&, const SimulationPoint& each) {
       return number(std::optional(each.moves));
     }},
    {"Loops: moves of a pod moved less than an hour before",
     [](const SimulationPoint&, const SimulationPoint& each) {
       return number(std::optional(each.loops));
     }},
};

double uncertainty_of(const PlotRow& row, const SimulationPoint& point) {
  return row.uncertainty == nullptr ? 0 : row.uncertainty(point);
}

// Where values and times are in a plot of these runs.
class PlotScale {
 public:
  PlotScale(const PlotRow& row, std::span<const SimulationRun> runs) {
    for (const SimulationRun& run : runs) {
      for (std::size_t i = 0; i < run.points.size(); ++i) {
        const auto value = row.value(runs.front().points[i], run.points[i]);
        is_known_ = is_known_ || value.has_value();
        top_ = std::max(top_, value.value_or(0) + uncertainty_of(row, run.points[i]));
        bottom_ = std::min(bottom_, value.value_or(0));
        end_ = std::max(end_, static_cast<double>(run.points[i].seconds));
      }
    }
    step_ = step_of(top_ - bottom_);
    top_ = std::ceil(top_ / step_) * step_;
    bottom_ = std::floor(bottom_ / step_) * step_;
  }

  [[nodiscard]] bool is_known() const { return is_known_; }
  [[nodiscard]] double x_of(double seconds) const {
    return kLeft + seconds / end_ * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y_of(double value) const {
    return kHeight - kBottom - (value - bottom_) / (top_ - bottom_) * (kHeight - kTop - kBottom);
  }

  [[nodiscard]] std::string axes() const {
    std::string out;
    for (double value = bottom_; value <= top_; value += step_) {
      // An integral step, so that zero is exact.
      out += fmt::format(R"(<line class="{0}" x1="{1}" x2="{2}" y1="{3:.1f}" y2="{3:.1f}"/>)"
                         R"(<text x="{4}" y="{5:.1f}" text-anchor="end">{6:.0f}</text>)"
                         "\n",
                         value == 0 && bottom_ < 0 ? "zero" : "grid", kLeft, kWidth - kRight,
                         y_of(value), kLeft - 6, y_of(value) + 4, value);
    }
    const bool is_short = end_ < kShortSeconds;
    const double unit = is_short ? kMinuteSeconds : kHourSeconds;
    const double every = step_of(end_ / unit);
    for (double time = 0; time <= end_ / unit; time += every) {
      const double x = x_of(time * unit);
      out += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="{}">{:.0f} {}</text>)"
                         "\n",
                         x, kHeight - 6, x > kWidth - kLabelHalf ? "end" : "middle", time,
                         is_short ? "min" : "h");
    }
    return out;
  }

 private:
  double top_ = 1;
  double bottom_ = 0;
  double end_ = 1;
  double step_ = 1;
  bool is_known_ = false;
};

// From the known values to what they may be at most; empty: they are exact.
std::string band_of(const PlotRow& row, const PlotScale& scale, const SimulationRun& unmoved,
                    const SimulationRun& run, std::size_t index) {
  std::string most;
  std::string least;
  bool is_exact = true;
  for (std::size_t i = 0; i < run.points.size(); ++i) {
    const double known = row.value(unmoved.points[i], run.points[i]).value_or(0);
    const double more = uncertainty_of(row, run.points[i]);
    is_exact = is_exact && more <= 0;
    const double x = scale.x_of(static_cast<double>(run.points[i].seconds));
    most += fmt::format("{:.1f},{:.1f} ", x, scale.y_of(known + more));
    least = fmt::format("{:.1f},{:.1f} ", x, scale.y_of(known)) + least;
  }
  if (is_exact) return "";
  return fmt::format("<polygon class=\"band run{}\" points=\"{}{}\"/>\n", index % kStrokes, most,
                     least);
}

// Ends where values are unknown.
std::string line_of(const PlotRow& row, const PlotScale& scale, const SimulationRun& unmoved,
                    const SimulationRun& run, std::size_t index) {
  std::string out;
  std::string points;
  const auto end_line = [&] {
    if (points.empty()) return;
    if (points.find(' ') == points.size() - 1) points += points;  // shows as a dot
    out += fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", line_class(index), points);
    points.clear();
  };
  for (std::size_t i = 0; i < run.points.size(); ++i) {
    const auto value = row.value(unmoved.points[i], run.points[i]);
    if (!value) {
      end_line();
      continue;
    }
    points += fmt::format("{:.1f},{:.1f} ", scale.x_of(static_cast<double>(run.points[i].seconds)),
                          scale.y_of(*value));
  }
  end_line();
  return out;
}

std::string plot_section(const PlotRow& row, std::span<const SimulationRun> runs) {
  const PlotScale scale(row, runs);
  if (!scale.is_known()) {
    return fmt::format("<section><h2>{}</h2><p>unknown</p></section>\n", row.title);
  }
  std::string out = fmt::format(
      "<section><h2>{0}</h2><svg viewBox=\"0 0 {1} {2}\" role=\"img\" aria-label=\"{0}\">\n",
      row.title, kWidth, kHeight);
  out += scale.axes();
  std::string bands;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    bands += band_of(row, scale, runs.front(), runs[i], i);
  }
  out += bands;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    out += line_of(row, scale, runs.front(), runs[i], i);
  }
  out += "</svg>";
  if (!bands.empty()) out += "<p>Shaded: nodes without a measurement, which may be hot too.</p>";
  return out + "</section>\n";
}

template <typename Number>
std::string cell(const std::optional<Number>& value) {
  return fmt::format("<td>{}</td>", value ? std::to_string(*value) : "unknown");
}

std::string row_of(std::span<const SimulationRun> runs, std::size_t index, bool of_trace) {
  const SimulationRun& run = runs[index];
  const SimulationPoint& last = run.points.back();
  const auto avoided_cell = [&](std::optional<std::uint64_t> SimulationPoint::*count) {
    if (index == 0) return std::string("<td>-</td>");
    return cell(avoided(runs.front().points.back(), last, count));
  };
  std::string out = fmt::format(
      R"(<tr><td><svg class="key" viewBox="0 0 34 8"><line x1="0" x2="34" y1="4" y2="4" )"
      R"(class="{}"/></svg>{}</td>)",
      line_class(index), escaped_html(run.name));
  out += fmt::format("<td>{}</td>", hot_minutes_text(run));
  if (of_trace) out += fmt::format("<td>{}</td>", compared_minutes_text(run));
  out += cell(last.evictions) + avoided_cell(&SimulationPoint::evictions);
  out += cell(last.kills) + avoided_cell(&SimulationPoint::kills);
  out += cell(std::optional(last.moves)) + cell(std::optional(last.loops));
  out += cell(std::optional(run.refused));
  if (of_trace) out += cell(std::optional(last.waiting));
  return out + "</tr>\n";
}

std::string table_of(std::span<const SimulationRun> runs, bool of_trace) {
  std::string out = fmt::format(
      "<div class=\"table\"><table><tr><th>policy</th><th>hot node minutes</th>{}<th>evictions by "
      "the kubelet</th>"
      "<th>avoided</th><th>kills by the kernel</th><th>avoided</th><th>moves</th><th>loops</th>"
      "<th>refused moves</th>{}</tr>\n",
      of_trace ? "<th>of nodes that every run measures</th>" : "",
      of_trace ? "<th>waiting in the end</th>" : "");
  for (std::size_t i = 0; i < runs.size(); ++i) out += row_of(runs, i, of_trace);
  return out + "</table></div>\n";
}

}  // namespace

SimulationSubject subject_of(const rebalance::SimulationOptions& options) {
  return {.description = fmt::format(
              "{} nodes, {} pods, {} hours, a plan every {} s, seed {}{}. Nodes, pods and the "
              "scheduler are a model; forestall(8) describes it.",
              options.nodes, options.nodes * options.pods_per_node, options.hours,
              options.interval_seconds, options.seed,
              options.placeholders ? "; replacements run where room was booked" : ""),
          .notes = {},
          .is_trace = false};
}

std::string simulation_page(const SimulationSubject& subject, std::span<const SimulationRun> runs) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<title>Simulated rebalancing</title><style>{}</style></head><body>\n"
      "<h1>Simulated rebalancing</h1>\n<p>{} Avoided: how many fewer than in the first run, in "
      "which no pod is moved; negative: so many more.</p>\n",
      kStyle, escaped_html(subject.description));
  for (const std::string& each : subject.notes) {
    out += fmt::format("<p><strong>{}</strong></p>\n", escaped_html(each));
  }
  for (const SimulationRun& run : runs) {
    if (run.error.empty()) continue;
    out += fmt::format("<p><strong>An error ended plans of {}: {}</strong></p>\n",
                       escaped_html(run.name), escaped_html(run.error));
  }
  out += table_of(runs, subject.is_trace);
  out += "<div class=\"plots\">\n";
  for (const PlotRow& each : kPlotRows) {
    if (subject.is_trace || !each.of_trace_only) out += plot_section(each, runs);
  }
  return out + "</div>\n</body></html>\n";
}

}  // namespace forestall::cli
