// SPDX-License-Identifier: Apache-2.0
// The node: memory with its thresholds, and pressure.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "model/signal.h"
#include "policy/warning.h"
#include "top/draw_parts.h"
#include "top/rows.h"

namespace forestall::top {
namespace {

constexpr int kNameWidth = 8;  // "memory  "

// A position on the bar, and its name.
struct Mark {
  std::int64_t available = 0;  // its position as available memory
  std::string name;
  Role role = Role::plain;
};

// Of the node's memory.available.
std::vector<Mark> marks_of(const Frame& frame) {
  std::vector<Mark> marks;
  std::optional<std::int64_t> warning;
  for (const v1::Evidence& each : frame.report.signals().signals()) {
    if (each.subject() != "node" || each.threshold().signal() != "memory.available") continue;
    const bool hard = each.threshold().grace_ns() == 0;
    marks.push_back({each.limit(), kind_of(each.threshold()) + " " + brief_bytes(each.limit()),
                     hard ? Role::bad : Role::warned});
    const std::int64_t line = each.limit() + margin_of(each).count;
    if (hard) warning = std::max(warning.value_or(line), line);
  }
  if (warning) marks.push_back({*warning, "warning " + brief_bytes(*warning), Role::accent});
  std::ranges::sort(marks, {}, &Mark::available);
  return marks;
}

Need worst_of_node(const internal::TopReport& report) {
  Need worst = Need::calm;
  for (const v1::Evidence& each : report.signals().signals()) {
    const auto signal = parse_signal(each.threshold().signal());
    const bool memory = signal && resource_of(*signal) == Resource::memory;
    if (each.subject() == "node" && memory) worst = std::max(worst, need_of(each));
  }
  return worst;
}

// Names under the bar, from the right: each ends at its position, or left of the previous name.
void draw_names(const std::vector<Mark>& marks, const std::vector<int>& places, int left, int y,
                const Frame& frame, Screen& screen) {
  int right = screen.size().width;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const bool hard = marks[i].role == Role::bad;
    const std::string text =
        marks[i].name + " " + to_utf8(hard ? frame.glyphs.marker : frame.glyphs.warn_marker);
    const int end = std::min(places[i] + 1, right);
    if (end - width_of(text) < left) return;
    screen.write_right(end, y, text, {marks[i].role});
    right = end - width_of(text) - 2;
  }
}

// One of the two charts of a resource; it ends at `right`.
void draw_chart(const Frame& frame, const std::deque<double>& line, const char* name, Role role,
                int x, int right, int y, Screen& screen) {
  x = screen.write(x, y, fmt::format("{} ", name), {Role::faint});
  const double now = line.empty() ? 0 : line.back();
  const Style style{now < 0.0005 ? Role::faint : role, false, now >= 0.1};
  screen.write_right(right, y, line.empty() ? "-" : fmt::format("{:.1f}%", now * 100), style);
  const int width = right - 7 - x;
  const auto& levels = frame.glyphs.levels;
  for (int i = 0; i < width && static_cast<std::size_t>(i) < line.size(); ++i) {
    const double share = line[line.size() - 1 - static_cast<std::size_t>(i)];
    // Square root: 1 % of stall is visible, and 25 % is half of the height.
    const double height =
        std::ceil(std::sqrt(std::clamp(share, 0.0, 1.0)) * static_cast<double>(levels.size() - 1));
    screen.put(x + width - 1 - i, y, levels[static_cast<std::size_t>(height)], {role});
  }
}

}  // namespace

int draw_memory(const Frame& frame, int y, int height, Screen& screen) {
  const v1::NodeSample& node = frame.report.signals().observation().node();
  int x = screen.write(0, y, "memory", {Role::title, false, true});
  if (!node.has_capacity_bytes() || !node.has_usage_bytes() || !node.has_inactive_file_bytes() ||
      node.capacity_bytes() <= 0) {
    screen.write(x, y, "  memory in use could not be read", {Role::warned});
    return y + 1;
  }
  const std::int64_t capacity = node.capacity_bytes();
  const std::int64_t used =
      std::max<std::int64_t>(node.usage_bytes() - node.inactive_file_bytes(), 0);
  const Role role = role_of(worst_of_node(frame.report));
  const std::string text = screen.size().width < 60
                               ? fmt::format(" {} left", brief_bytes(capacity - used))
                               : fmt::format(" {} of {} used, {} available", brief_bytes(used),
                                             brief_bytes(capacity), brief_bytes(capacity - used));
  const int left = kNameWidth;
  const int right = screen.size().width - width_of(text);
  const int width = right - left;
  screen.write(right, y, text, {role, false, true});
  const auto cells_of = [&](std::int64_t bytes) {
    return static_cast<int>(std::lround(static_cast<double>(width) * static_cast<double>(bytes) /
                                        static_cast<double>(capacity)));
  };
  const int used_end = left + cells_of(std::min(used, capacity));
  const int cache_end = left + cells_of(std::clamp(node.usage_bytes(), used, capacity));
  for (x = left; x < right; ++x) {
    if (x < used_end) {
      screen.put(x, y, frame.glyphs.full, {role == Role::good ? Role::bar_used : role});
    } else if (x < cache_end) {
      screen.put(x, y, frame.glyphs.half, {Role::bar_cache});
    } else {
      screen.put(x, y, frame.glyphs.empty, {Role::bar_free});
    }
  }
  const std::vector<Mark> marks = marks_of(frame);
  std::vector<int> places;
  for (const Mark& each : marks) {
    const int place = std::clamp(right - 1 - cells_of(each.available), left, right - 1);
    places.push_back(place);
    screen.put(place, y, frame.glyphs.mark, {each.role, false, true});
  }
  if (height < 2 || marks.empty()) return y + 1;
  draw_names(marks, places, left, y + 1, frame, screen);
  return y + 2;
}

int pressure_lines(const Frame& frame) {
  int lines = 0;
  for (const char* each : {"memory", "io", "cpu"}) {
    lines += frame.history.pressure(each) == nullptr ? 0 : 1;
  }
  return lines;
}

int draw_pressure(const Frame& frame, int y, int height, Screen& screen) {
  for (const char* each : {"memory", "io", "cpu"}) {
    const PressureTrend* line = frame.history.pressure(each);
    if (line == nullptr || height-- <= 0) continue;
    int x = screen.write(0, y, "stalled ", {Role::title, false, true});
    x = screen.write(x, y, fmt::format("{:<7}", each), {Role::plain});
    const int half = x + (screen.size().width - x - 2) / 2;
    const bool narrow = screen.size().width < 50 || line->full.empty();
    draw_chart(frame, line->some, "some", Role::chart_some, x, narrow ? screen.size().width : half,
               y, screen);
    if (!narrow) {
      draw_chart(frame, line->full, "full", Role::chart_full, half + 2, screen.size().width, y,
                 screen);
    }
    ++y;
  }
  return y;
}

}  // namespace forestall::top
