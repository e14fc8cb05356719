// SPDX-License-Identifier: Apache-2.0
// Each threshold as a line: the comparison, its state, and the used part of the resource as a
// history and a bar.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "model/signal.h"
#include "policy/warning.h"
#include "tables/limit_text.h"
#include "top/draw_parts.h"
#include "top/rows.h"

namespace forestall::top {
namespace {

bool warns_only(const v1::Threshold& threshold) {
  return !threshold.response().empty() && threshold.response() != "evict";
}

// A line of the part: a threshold with values, or one without.
struct ThresholdLine {
  const v1::Evidence* known = nullptr;
  const internal::UnknownThreshold* unknown = nullptr;

  [[nodiscard]] const v1::Threshold& threshold() const {
    return known != nullptr ? known->threshold() : unknown->threshold();
  }
  [[nodiscard]] const std::string& subject() const {
    return known != nullptr ? known->subject() : unknown->subject();
  }
};

// The most urgent first, then the unknown ones.
std::vector<ThresholdLine> lines_of(const internal::TopReport& report) {
  std::vector<ThresholdLine> lines;
  for (const v1::Evidence* each : thresholds_of(report)) lines.push_back({each, nullptr});
  for (const auto& each : report.unknown_thresholds()) lines.push_back({nullptr, &each});
  return lines;
}

// The state in a few columns.
std::string brief_state(const Frame& frame, const v1::Evidence& each) {
  switch (need_of(each)) {
    case Need::calm: return "calm";
    case Need::near: return "near";
    case Need::recedes: return "recedes";
    case Need::met:
      return warns_only(each.threshold()) ? "MET, " + each.threshold().response() + "s" : "MET";
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

std::string comparison(const ThresholdLine& line) {
  if (line.known != nullptr) return comparison(*line.known);
  return "unknown, limit " + tables::limit_text(line.unknown->threshold());
}

// Widths of the columns of a threshold. 0: the column is left out.
struct ThresholdColumns {
  int subject = 0;
  int signal = 0;
  int kind = 0;
  int comparison = 0;
  int history = 0;
  int bar = 0;
  bool brief = true;  // the state
};

// Below 60 columns a line begins with the state and has no columns.
constexpr int kColumnsFrom = 60;
constexpr int kSubjectMin = 8;
// The bar has brackets. A column that would be narrower is left out.
constexpr int kBarMin = 8;
constexpr int kBarMax = 50;
constexpr int kHistoryMin = 5;
constexpr int kHistoryMax = 30;
constexpr int kGraphMin = 1 + kHistoryMin + 1 + kBarMin;

void share_graph(int room, ThresholdColumns& columns) {
  if (room < 1 + kBarMin) return;
  if (room < kGraphMin) {
    columns.bar = room - 1;
    return;
  }
  columns.history = std::clamp((room - 2) * 2 / 5, kHistoryMin, kHistoryMax);
  columns.bar = std::min(room - 2 - columns.history, kBarMax);
}

ThresholdColumns columns_for(const Frame& frame, const std::vector<ThresholdLine>& lines,
                             int width) {
  ThresholdColumns columns;
  if (width < kColumnsFrom) return columns;
  int state = 0;
  int brief = 0;
  for (const ThresholdLine& each : lines) {
    columns.subject = std::max(columns.subject, width_of(each.subject()));
    columns.signal = std::max(columns.signal, width_of(each.threshold().signal()));
    columns.comparison = std::max(columns.comparison, width_of(comparison(each)));
    if (each.known == nullptr) continue;
    state = std::max(state, width_of(state_text(frame, *each.known)));
    brief = std::max(brief, width_of(brief_state(frame, *each.known)));
  }
  columns.kind = width >= 100 ? 5 : 0;
  // The dot, and a space after each column.
  int room = width - 2 - columns.comparison - 1 - columns.kind - 2;
  const int subject_min = std::min(columns.subject, kSubjectMin);
  const int free = room - columns.signal - std::min(columns.subject, 3 * kSubjectMin);
  columns.brief = free < state + 2 * kGraphMin;
  room -= columns.brief ? brief : state;
  // The graph goes before a long subject, but not before the signal.
  const int graph =
      std::clamp(room - columns.signal - std::min(columns.subject, 2 * kSubjectMin), 0, kGraphMin);
  room -= graph;
  columns.signal = std::clamp(room - subject_min, 1, columns.signal);
  columns.subject = std::clamp(room - columns.signal, subject_min, columns.subject);
  share_graph(graph + std::max(room - columns.signal - columns.subject, 0), columns);
  return columns;
}

// Parts of the capacity, from 0 to 1.
struct Use {
  double used = 0;
  double line = 0;  // the threshold is met above it
};

std::optional<Use> use_of(const v1::Evidence& each) {
  if (each.capacity() <= 0) return std::nullopt;
  const auto capacity = static_cast<double>(each.capacity());
  return Use{1 - static_cast<double>(each.available()) / capacity,
             1 - static_cast<double>(each.limit()) / capacity};
}

// The height is the part of the line that is in use; the highest level means that it is reached.
void draw_history(const Frame& frame, const v1::Evidence& each, int x, int width, int y,
                  Screen& screen) {
  const auto* points = frame.history.use_of(each);
  const auto use = use_of(each);
  if (points == nullptr || !use) return;
  const auto& levels = frame.glyphs.levels;
  const std::size_t top = levels.size() - 1;
  for (int i = 0; i < width && static_cast<std::size_t>(i) < points->size(); ++i) {
    const auto& used = (*points)[points->size() - 1 - static_cast<std::size_t>(i)];
    const int at = x + width - 1 - i;
    if (!used) {
      screen.put(at, y, U'?', {Role::warned});
      continue;
    }
    const bool met = *used > use->line;
    const double part = use->line > 0 ? std::clamp(*used / use->line, 0.0, 1.0) : 0;
    const auto below = 1 + static_cast<std::size_t>(part * static_cast<double>(top - 2));
    screen.put(at, y, levels[met ? top : below], {met ? Role::bad : Role::bar_used});
  }
}

// "[######....|..]": the used part of the capacity, and the threshold. The filled part passes the
// mark exactly if the available amount is below the limit.
void draw_bar(const Frame& frame, const v1::Evidence& each, int x, int width, int y,
              Screen& screen) {
  const auto use = use_of(each);
  if (!use) return;
  const int cells = width - 2;
  const auto cells_of = [&](double part) {
    return static_cast<int>(std::lround(std::clamp(part, 0.0, 1.0) * cells));
  };
  const int mark = std::min(cells_of(use->line), cells - 1);
  const bool below = each.available() < each.limit();
  const int filled =
      below ? std::max(cells_of(use->used), mark + 1) : std::min(cells_of(use->used), mark);
  const Need need = need_of(each);
  const Role role = need == Need::calm ? Role::bar_used : role_of(need);
  screen.put(x, y, U'[', {Role::faint});
  screen.put(x + width - 1, y, U']', {Role::faint});
  for (int i = 0; i < cells; ++i) {
    const bool full = i < filled;
    screen.put(x + 1 + i, y, full ? frame.glyphs.full : frame.glyphs.empty,
               {full ? role : Role::bar_free});
  }
  const bool hard = each.threshold().grace_ns() == 0;
  screen.put(x + 1 + mark, y, frame.glyphs.mark, {hard ? Role::bad : Role::warned, false, true});
}

void draw_narrow(const Frame& frame, const ThresholdLine& line, const Style& style, int y,
                 Screen& screen) {
  const int width = screen.size().width;
  const std::string state = line.known != nullptr ? brief_state(frame, *line.known) + " " : "";
  int x = screen.write(2, y, state, style);
  x = screen.write(x, y, line.subject(), {}, std::max(width - x - 20, 0)) + 1;
  x = screen.write(x, y, comparison(line), line.known != nullptr ? Style{} : style) + 1;
  screen.write(x, y, line.threshold().signal(), {Role::faint});
}

// `right`: where the line ends.
void draw_threshold(const Frame& frame, const ThresholdLine& line, const ThresholdColumns& columns,
                    int y, int right, Screen& screen) {
  const Need need = line.known != nullptr ? need_of(*line.known) : Need::near;
  const Style style{role_of(need), false, need != Need::calm};
  screen.put(0, y, frame.glyphs.dot, style);
  if (columns.comparison == 0) {
    draw_narrow(frame, line, style, y, screen);
    return;
  }
  int x = 2;
  screen.write(x, y, shortened(line.subject(), columns.subject, frame.glyphs), {});
  x += columns.subject + 1;
  screen.write(x, y, shortened(line.threshold().signal(), columns.signal, frame.glyphs), {});
  x += columns.signal + 1;
  if (columns.kind > 0) screen.write(x, y, kind_of(line.threshold()), {Role::faint});
  x += columns.kind;
  screen.write_right(x + columns.comparison, y, comparison(line),
                     line.known != nullptr ? Style{} : style);
  x += columns.comparison + 1;
  if (line.known == nullptr) {
    screen.write(x, y, shortened(line.unknown->reason(), right - x, frame.glyphs), style);
    return;
  }
  if (columns.bar > 0) {
    right -= columns.bar;
    draw_bar(frame, *line.known, right, columns.bar, y, screen);
    right -= 1;
  }
  if (columns.history > 0) {
    right -= columns.history;
    draw_history(frame, *line.known, right, columns.history, y, screen);
    right -= 1;
  }
  const std::string state =
      columns.brief ? brief_state(frame, *line.known) : state_text(frame, *line.known);
  screen.write(x, y, shortened(state, right - x, frame.glyphs), style);
}

}  // namespace

bool is_bytes(const v1::Evidence& each) {
  const auto signal = parse_signal(each.threshold().signal());
  return !signal || unit_of(*signal) == Unit::bytes;
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

std::string amount_of(const v1::Evidence& each, std::int64_t count) {
  return is_bytes(each) ? brief_bytes(count) : fmt::format("{}", count);
}

std::string kind_of(const v1::Threshold& threshold) {
  if (warns_only(threshold)) return threshold.response();
  return threshold.grace_ns() > 0 ? "soft" : "hard";
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
      return (warns_only(each.threshold()) ? "MET, " + each.threshold().response() + "s" : "MET") +
             credit;
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

int threshold_lines(const Frame& frame) {
  const internal::TopReport& report = frame.report;
  return std::max(report.signals().signals_size() + report.unknown_thresholds_size(), 1);
}

int draw_thresholds(const Frame& frame, int y, int height, Screen& screen) {
  const std::vector<ThresholdLine> lines = lines_of(frame.report);
  if (height <= 0) return y;
  if (lines.empty()) {
    screen.write(0, y, "no threshold could be computed", {Role::warned});
    return y + 1;
  }
  const auto count = std::min<std::size_t>(static_cast<std::size_t>(height), lines.size());
  const std::string more =
      count < lines.size() ? fmt::format(" +{}", lines.size() - count) : std::string();
  const int right = screen.size().width - width_of(more);
  const ThresholdColumns columns = columns_for(frame, lines, right);
  for (std::size_t i = 0; i < count; ++i, ++y) {
    draw_threshold(frame, lines[i], columns, y, right, screen);
  }
  screen.write_right(screen.size().width, y - 1, more, {Role::faint});
  return y;
}

}  // namespace forestall::top
