// SPDX-License-Identifier: Apache-2.0
// The node: memory and thresholds, pressure, and the state of each threshold.
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

// Urgency of a threshold, in ascending order; the most urgent are shown first.
enum class Need { calm, near, recedes, grace, met };

bool is_bytes(const v1::Evidence& each) {
  const auto signal = parse_signal(each.threshold().signal());
  return !signal || unit_of(*signal) == Unit::bytes;
}

bool warns_only(const v1::Evidence& each) {
  return !each.threshold().response().empty() && each.threshold().response() != "evict";
}

Bytes margin_of(const v1::Evidence& each) {
  const auto signal = parse_signal(each.threshold().signal());
  if (!signal || !has_usage_line(*signal)) return Bytes{0};
  return policy::warning_margin(Bytes{each.capacity()});
}

Need need_of(const v1::Evidence& each) {
  if (each.met()) {
    if (each.available() >= each.limit()) return Need::recedes;
    return each.threshold().grace_ns() > 0 && !each.driving() ? Need::grace : Need::met;
  }
  const Bytes headroom{each.available() - each.limit()};
  return policy::in_warning_zone(headroom, margin_of(each)) ? Need::near : Need::calm;
}

Role role_of(Need need) {
  switch (need) {
    case Need::calm: return Role::good;
    case Need::near:
    case Need::recedes:
    case Need::grace: return Role::warned;
    case Need::met: return Role::bad;
  }
  return Role::plain;
}

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
    marks.push_back({each.limit(), kind_of(each) + " " + brief_bytes(each.limit()),
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
    if (each.subject() == "node" && is_bytes(each)) worst = std::max(worst, need_of(each));
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

// The state in a few columns.
std::string brief_state(const Frame& frame, const v1::Evidence& each) {
  switch (need_of(each)) {
    case Need::calm: return "calm";
    case Need::near: return "near";
    case Need::recedes: return "recedes";
    case Need::met: return warns_only(each) ? "MET, " + each.threshold().response() + "s" : "MET";
    case Need::grace: {
      const std::string grace = brief_duration(each.threshold().grace_ns());
      if (!each.has_first_met_ns()) return "grace of " + grace;
      const auto since = std::max<std::int64_t>(frame.report.at_ns() - each.first_met_ns(), 0);
      return "grace " + brief_duration(since) + " of " + grace;
    }
  }
  return "";
}

// "255.0M >= 64.0M". Two amounts that differ less than the rounding are printed in full.
std::string comparison(const v1::Evidence& each) {
  std::string available = amount_of(each, each.available());
  std::string limit = amount_of(each, each.limit());
  const bool below = each.available() < each.limit();
  if (below && available == limit) {
    available = fmt::format("{}", each.available());
    limit = fmt::format("{}", each.limit());
  }
  return fmt::format("{} {} {}", available, below ? "<" : ">=", limit);
}

// Widths of the columns of a threshold. 0: the column is left out.
struct ThresholdColumns {
  int subject = 0;
  int signal = 0;
  int kind = 0;
  int comparison = 0;
  bool brief = true;  // the state
};

// Below 60 columns a line begins with the state and has no columns.
constexpr int kColumnsFrom = 60;
constexpr int kSubjectMin = 8;

ThresholdColumns columns_for(const Frame& frame, const std::vector<const v1::Evidence*>& all,
                             int width) {
  ThresholdColumns columns;
  if (width < kColumnsFrom) return columns;
  int state = 0;
  int brief = 0;
  for (const v1::Evidence* each : all) {
    columns.subject = std::max(columns.subject, width_of(each->subject()));
    columns.signal = std::max(columns.signal, width_of(each->threshold().signal()));
    columns.comparison = std::max(columns.comparison, width_of(comparison(*each)));
    state = std::max(state, width_of(state_text(frame, *each)));
    brief = std::max(brief, width_of(brief_state(frame, *each)));
  }
  columns.kind = width >= 100 ? 5 : 0;
  // The dot, and a space after each column.
  int room = width - 2 - columns.comparison - 1 - columns.kind - 2;
  const int subject_min = std::min(columns.subject, kSubjectMin);
  columns.brief = room - columns.signal - std::min(columns.subject, 3 * kSubjectMin) < state;
  room -= columns.brief ? brief : state;
  columns.signal = std::clamp(room - subject_min, 1, columns.signal);
  columns.subject = std::clamp(room - columns.signal, subject_min, columns.subject);
  return columns;
}

void draw_threshold(const Frame& frame, const v1::Evidence& each, const ThresholdColumns& columns,
                    int y, Screen& screen) {
  const Need need = need_of(each);
  const Style style{role_of(need), false, need != Need::calm};
  const int width = screen.size().width;
  screen.put(0, y, frame.glyphs.dot, style);
  int x = 2;
  if (columns.comparison == 0) {
    x = screen.write(x, y, brief_state(frame, each), style) + 1;
    x = screen.write(x, y, each.subject(), {}, std::max(width - x - 20, 0)) + 1;
    x = screen.write(x, y, comparison(each), {}) + 1;
    screen.write(x, y, each.threshold().signal(), {Role::faint});
    return;
  }
  screen.write(x, y, shortened(each.subject(), columns.subject, frame.glyphs), {});
  x += columns.subject + 1;
  screen.write(x, y, shortened(each.threshold().signal(), columns.signal, frame.glyphs), {});
  x += columns.signal + 1;
  if (columns.kind > 0) screen.write(x, y, kind_of(each), {Role::faint});
  x += columns.kind;
  screen.write_right(x + columns.comparison, y, comparison(each), {});
  x += columns.comparison + 1;
  const std::string state = columns.brief ? brief_state(frame, each) : state_text(frame, each);
  screen.write(x, y, shortened(state, width - x, frame.glyphs), style);
}

}  // namespace

std::string amount_of(const v1::Evidence& each, std::int64_t count) {
  return is_bytes(each) ? brief_bytes(count) : fmt::format("{}", count);
}

std::string kind_of(const v1::Evidence& each) {
  if (warns_only(each)) return each.threshold().response();
  return each.threshold().grace_ns() > 0 ? "soft" : "hard";
}

std::string state_text(const Frame& frame, const v1::Evidence& each) {
  const std::string credit =
      each.pending_release() > 0
          ? ", " + amount_of(each, each.pending_release()) + " pending release"
          : "";
  switch (need_of(each)) {
    case Need::calm: return "calm";
    case Need::near: return "near: past its warning line";
    case Need::recedes: return "recedes: met until the minimum reclaim is available" + credit;
    case Need::met:
      return (warns_only(each) ? "MET, " + each.threshold().response() + "s" : "MET") + credit;
    case Need::grace: {
      const std::string grace = brief_duration(each.threshold().grace_ns());
      if (!each.has_first_met_ns()) return "met, grace of " + grace + credit;
      const std::int64_t since =
          std::max<std::int64_t>(frame.report.at_ns() - each.first_met_ns(), 0);
      return "in grace " + brief_duration(since) + " of " + grace + credit;
    }
  }
  return "";
}

std::vector<const v1::Evidence*> thresholds_of(const internal::TopReport& report) {
  std::vector<const v1::Evidence*> all;
  for (const v1::Evidence& each : report.signals().signals()) all.push_back(&each);
  std::ranges::stable_sort(
      all, [](const v1::Evidence* a, const v1::Evidence* b) { return need_of(*a) > need_of(*b); });
  return all;
}

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
    const PressureLine* line = frame.history.pressure(each);
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

int threshold_lines(const Frame& frame) {
  return std::max(frame.report.signals().signals_size(), 1);
}

int draw_thresholds(const Frame& frame, int y, int height, Screen& screen) {
  const auto all = thresholds_of(frame.report);
  if (height <= 0) return y;
  if (all.empty()) {
    screen.write(0, y, "no threshold could be computed", {Role::warned});
    return y + 1;
  }
  const auto count = std::min<std::size_t>(static_cast<std::size_t>(height), all.size());
  const ThresholdColumns columns = columns_for(frame, all, screen.size().width);
  for (std::size_t i = 0; i < count; ++i, ++y) {
    draw_threshold(frame, *all[i], columns, y, screen);
  }
  if (count < all.size()) {
    screen.write_right(screen.size().width, y - 1, fmt::format(" +{}", all.size() - count),
                       {Role::faint});
  }
  return y;
}

}  // namespace forestall::top
