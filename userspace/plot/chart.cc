// SPDX-License-Identifier: Apache-2.0
#include "plot/chart.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>

#include "plot/label_place.h"

namespace forestall::plot {
namespace {

constexpr double kLeft = 92;     // for the amounts
constexpr double kHead = 30;     // for title and legend
constexpr double kFoot = 24;     // for the times
constexpr double kSmall = 12.5;  // font size

const Colour kInk = colour(0x18211d);
const Colour kQuiet = colour(0x5c6963);
const Colour kGrid = colour(0xe3e8e4);
const Colour kHard = colour(0xc0392b);
const Colour kSoft = colour(0xb8690b);

using Values = std::vector<std::optional<double>>;

Values values_of(const internal::Table& table, const std::string& name) {
  Values values(static_cast<std::size_t>(table.at_us_size()));
  for (const internal::Line& line : table.lines()) {
    if (line.name() != name) continue;
    for (const internal::Run& run : line.runs()) {
      for (int i = 0; i < run.values_size(); ++i) {
        const std::size_t row = run.first() + static_cast<std::size_t>(i);
        if (row < values.size()) values[row] = static_cast<double>(run.values(i));
      }
    }
  }
  return values;
}

// A round step of which at most about `wanted` fit.
double nice_step(double range, double wanted, double base) {
  const double raw = range / wanted;
  const double power = std::pow(base, std::floor(std::log(raw) / std::log(base)));
  for (const double factor : {1., 2., 2.5, 4., 5., 8., 10., 16., 32., 64., 128., 256., 512.}) {
    if (base == 10 && (factor == 4 || factor == 8 || factor > 10)) continue;
    if (base != 10 && (factor == 2.5 || factor == 5 || factor == 10)) continue;
    if (factor * power >= raw) return factor * power;
  }
  return base * power;
}

struct Scale {
  Box plot;
  double from = 0;  // microseconds
  double to = 1;
  double low = 0;
  double high = 1;

  [[nodiscard]] double x(double us) const {
    return plot.left + plot.width * (us - from) / (to - from);
  }
  [[nodiscard]] double y(double value) const {
    return plot.bottom() - plot.height * (value - low) / (high - low);
  }
};

void draw_amounts(Canvas& canvas, const Scale& scale, AxisUnit unit) {
  const double wanted = std::max(2.0, std::round(scale.plot.height / 48));
  const double step =
      nice_step(scale.high - scale.low, wanted, unit == AxisUnit::bytes ? 1024 : 10);
  for (double at = std::ceil(scale.low / step) * step; at <= scale.high; at += step) {
    const double y = std::round(scale.y(at)) + 0.5;
    canvas.line(scale.plot.left, y, scale.plot.right(), y, {kGrid, 1});
    canvas.text(scale.plot.left - 10, y + 4, amount(unit, at), kSmall, kQuiet, Align::right);
  }
}

void draw_times(Canvas& canvas, const Scale& scale, std::int64_t origin_us) {
  constexpr std::array kSteps{0.001, 0.01, 0.1,  0.5,   1.,    2.,    5.,     10.,    30.,   60.,
                              120.,  300., 600., 1800., 3600., 7200., 14400., 43200., 86400.};
  const double span = (scale.to - scale.from) / 1e6;
  const double wanted = scale.plot.width / 150;
  const auto found =
      std::ranges::find_if(kSteps, [&](double each) { return span / each <= wanted; });
  const double step = found == kSteps.end() ? span : *found;
  const double begin = (static_cast<double>(origin_us) + scale.from) / 1e6;
  for (double at = std::ceil(begin / step) * step; at <= begin + span; at += step) {
    const double x = std::round(scale.x(at * 1e6 - static_cast<double>(origin_us))) + 0.5;
    canvas.line(x, scale.plot.top, x, scale.plot.bottom(), {kGrid, 1});
    const auto seconds =
        std::chrono::sys_seconds(std::chrono::seconds(std::llround(std::floor(at))));
    std::string text = step >= 60 ? fmt::format("{:%H:%M}", fmt::gmtime(seconds))
                                  : fmt::format("{:%H:%M:%S}", fmt::gmtime(seconds));
    if (step < 1) text += fmt::format("{:.3f}", at - std::floor(at)).substr(1);
    canvas.text(x, scale.plot.bottom() + 17, text, kSmall, kQuiet, Align::centre);
  }
}

void draw_line(Canvas& canvas, const Scale& scale, const internal::Table& table,
               const Values& values, const ChartLine& line) {
  cairo_t* cairo = canvas.cairo();
  bool drawing = false;
  for (std::size_t row = 0; row < values.size(); ++row) {
    if (!values[row]) {
      drawing = false;
      continue;
    }
    const double x = scale.x(static_cast<double>(table.at_us(static_cast<int>(row))));
    const double y = scale.y(*values[row]);
    if (drawing) {
      cairo_line_to(cairo, x, y);
    } else {
      cairo_move_to(cairo, x, y);
    }
    drawing = true;
  }
  canvas.set(line.colour);
  cairo_set_line_width(cairo, 2);
  cairo_set_line_join(cairo, CAIRO_LINE_JOIN_ROUND);
  cairo_stroke(cairo);
}

// Down to zero: lower areas are drawn over it. In steps, because a sample shows nothing of the time
// before it; rows that are not `known` have no area.
void draw_area(Canvas& canvas, const Scale& scale, const internal::Table& table,
               const std::vector<double>& tops, const std::vector<bool>& known,
               const Colour& colour) {
  const auto x = [&](std::size_t row) {
    return scale.x(static_cast<double>(table.at_us(static_cast<int>(row))));
  };
  for (std::size_t row = 0; row + 1 < tops.size(); ++row) {
    if (!known[row]) continue;
    const double top = scale.y(tops[row]);
    canvas.fill({x(row), top, x(row + 1) - x(row), scale.y(0) - top}, colour);
  }
}

// Nothing: the moment is not drawn.
std::optional<Colour> colour_of(const internal::Moment& moment) {
  switch (moment.kind()) {
    case internal::Moment::KILL: return kHard;
    case internal::Moment::WOULD_KILL: return kSoft;
    case internal::Moment::KERNEL_OOM: return colour(0x7b2fbf);
    default: return std::nullopt;
  }
}

// `moments`: where they are drawn.
void draw_thresholds(Canvas& canvas, const Scale& scale, const internal::Gauge& gauge,
                     const std::vector<double>& moments) {
  constexpr double kFont = 12;
  for (const internal::GaugeThreshold& each : gauge.thresholds()) {
    const bool soft = each.grace_ns() > 0 || each.response() != "evict";
    const Colour& drawn = soft ? kSoft : kHard;
    const double y = scale.y(static_cast<double>(each.limit()));
    const double from = std::max(scale.x(static_cast<double>(each.from_us())), scale.plot.left);
    const double to = std::min(scale.x(static_cast<double>(each.to_us())), scale.plot.right());
    canvas.line(from, y, to, y, {drawn, 1.5, true});
    const std::string label = each.quantity() + (soft ? " soft" : " hard");
    const double right = free_right(moments, scale.plot.left, scale.plot.right() - 6,
                                    canvas.text_width(label, kFont, true));
    canvas.text(right, y - 5, label, kFont, drawn, Align::right, true);
  }
}

// The name of a node threshold has no subject suffix (picture/spans.cc).
bool is_of(const internal::Span& span, const internal::Gauge& gauge) {
  if (!span.name().starts_with(gauge.signal() + "<")) return false;
  if (gauge.subject() == "node") return span.name().find(" of ") == std::string::npos;
  return span.name().ends_with(" of " + gauge.subject());
}

void draw_spans(Canvas& canvas, const Scale& scale, const internal::Picture& picture,
                const internal::Gauge* gauge) {
  for (const internal::Span& span : picture.spans()) {
    const bool of_gauge = gauge != nullptr && is_of(span, *gauge);
    Colour drawn = colour(0x888888, 0.25);
    if (span.kind() == internal::Span::MET && of_gauge) {
      drawn = colour(0xc0392b, 0.12);
    } else if (span.kind() == internal::Span::GRACE && of_gauge) {
      drawn = colour(0xd98c12, 0.15);
    } else if (span.kind() != internal::Span::LOST) {
      continue;
    }
    const double left = scale.x(static_cast<double>(span.from_us()));
    const double right = scale.x(static_cast<double>(span.to_us()));
    canvas.fill({left, scale.plot.top, std::max(right - left, 1.5), scale.plot.height}, drawn);
    constexpr double kLabelWidth = 60;
    if (span.kind() != internal::Span::LOST || right - left < kLabelWidth) continue;
    canvas.text((left + right) / 2, scale.plot.top + 16, "no data", kSmall, kQuiet, Align::centre);
  }
}

// Returns where.
std::vector<double> draw_moments(Canvas& canvas, const Scale& scale,
                                 const internal::Picture& picture) {
  std::vector<double> places;
  for (const internal::Moment& moment : picture.moments()) {
    const auto drawn = colour_of(moment);
    if (!drawn) continue;
    places.push_back(scale.x(static_cast<double>(moment.at_us())));
    canvas.line(places.back(), scale.plot.top, places.back(), scale.plot.bottom(), {*drawn, 1.5});
  }
  return places;
}

void draw_head(Canvas& canvas, const Box& box, const Chart& chart) {
  double x = box.left + kLeft +
             canvas.text(box.left, box.top + 18, chart.title, 15, kInk, Align::left, true) - kLeft +
             24;
  constexpr double kLabelMax = 190;
  for (const ChartLine& line : chart.lines) {
    if (x + 60 > box.right()) break;
    canvas.fill({x, box.top + 8, 11, 11}, line.colour);
    x += 17;
    x += canvas.text(x, box.top + 18, line.label, kSmall, kInk, Align::left, false,
                     std::min(kLabelMax, box.right() - x)) +
         18;
  }
}

}  // namespace

std::string amount(AxisUnit unit, double value) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  if (unit == AxisUnit::percent) return fmt::format("{:.4g} %", value / 1000);
  if (unit == AxisUnit::count) {
    if (std::abs(value) >= 1e6) return fmt::format("{:.4g}M", value / 1e6);
    return std::abs(value) >= 1e4 ? fmt::format("{:.4g}k", value / 1e3)
                                  : fmt::format("{:.4g}", value);
  }
  std::size_t size = 0;
  while (std::abs(value) >= 1024 && size + 1 < kUnits.size()) {
    value /= 1024;
    ++size;
  }
  return fmt::format("{:.3g} {}", value, kUnits[size]);
}

void draw(Canvas& canvas, const Box& box, const internal::Picture& picture, const Chart& chart) {
  draw_head(canvas, box, chart);
  Scale scale;
  scale.plot = {box.left + kLeft, box.top + kHead, box.width - kLeft, box.height - kHead - kFoot};
  scale.from = static_cast<double>(picture.from_us());
  scale.to = std::max(static_cast<double>(picture.to_us()), scale.from + 1000);
  std::vector<Values> values;
  for (const ChartLine& line : chart.lines) values.push_back(values_of(*chart.table, line.name));
  std::vector<std::vector<double>> tops;
  std::vector<double> sum(static_cast<std::size_t>(chart.table->at_us_size()), 0);
  std::vector<bool> known(sum.size(), false);
  double high = chart.least_top;
  for (const Values& line : values) {
    for (std::size_t row = 0; row < line.size(); ++row) {
      const double value = line[row].value_or(0);
      known[row] = known[row] || line[row].has_value();
      sum[row] = chart.stacked ? sum[row] + value : value;
      high = std::max(high, sum[row]);
      scale.low = std::min(scale.low, value);
    }
    tops.push_back(sum);
  }
  if (chart.gauge != nullptr) {
    for (const internal::GaugeThreshold& each : chart.gauge->thresholds()) {
      high = std::max(high, static_cast<double>(each.limit()) * 1.25);
    }
  }
  scale.high = high > 0 ? high * 1.06 : 1;
  draw_amounts(canvas, scale, chart.unit);
  draw_times(canvas, scale, picture.origin_unix_us());
  canvas.clip(scale.plot);
  draw_spans(canvas, scale, picture, chart.gauge);
  for (std::size_t i = chart.lines.size(); i-- > 0;) {
    const ChartLine& line = chart.lines[i];
    if (chart.stacked) {
      draw_area(canvas, scale, *chart.table, tops[i], known, line.colour);
    } else {
      draw_line(canvas, scale, *chart.table, values[i], line);
    }
  }
  const std::vector<double> moments = draw_moments(canvas, scale, picture);
  if (chart.gauge != nullptr) draw_thresholds(canvas, scale, *chart.gauge, moments);
  canvas.unclip();
  if (chart.table->at_us_size() > 0) return;
  canvas.text(scale.plot.left + 12, scale.plot.top + 24, "Nothing was recorded.", 13, kQuiet);
}

}  // namespace forestall::plot
