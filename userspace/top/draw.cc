// SPDX-License-Identifier: Apache-2.0
#include "top/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "top/draw_parts.h"
#include "top/rows.h"

namespace forestall::top {
namespace {

// Below these heights, parts are omitted or short.
constexpr int kTallEnough = 24;
constexpr int kSmall = 14;
// Below this width, texts are short.
constexpr int kWideEnough = 70;
// Widest reason for the missing agent, in cells.
constexpr int kProblemWidth = 60;
// An older sample is marked as late.
constexpr Duration kStaleAfter = std::chrono::seconds(3);

// Lines of each part. The table gets the rest.
struct Shares {
  int memory = 1;
  int pressure = 1;
  int thresholds = 0;
  int explanation = 0;
  int decisions = 0;
  bool rules = false;
};

Shares shares_of(const Frame& frame, int height) {
  Shares shares;
  if (height < kSmall) {
    shares.thresholds = height >= 8 ? 1 : 0;
    shares.pressure = height >= 7 ? 1 : 0;
    return shares;
  }
  shares.memory = 2;
  shares.explanation = 1;
  shares.thresholds = std::min(threshold_lines(frame), std::max(height / 6, 2));
  shares.decisions =
      std::min(static_cast<int>(acts_of(frame.report).size()), std::max(height / 8, 1));
  shares.rules = height >= kTallEnough;
  shares.pressure = std::min(pressure_lines(frame), shares.rules ? 3 : 1);
  // Lines that the table of workloads does not need: it has a heading, as the screen has a title
  // and a foot.
  const int rules = shares.rules ? (shares.decisions > 0 ? 3 : 2) : 0;
  const int rows_left = height - 3 - shares.memory - shares.pressure - shares.explanation -
                        shares.decisions - rules - std::max(frame.report.workloads_size(), 1);
  shares.thresholds = std::max(shares.thresholds, std::min(threshold_lines(frame), rows_left));
  return shares;
}

// Parts of the title, the most important first; those that do not fit are omitted.
std::vector<std::pair<std::string, Style>> title_parts(const Frame& frame, bool narrow) {
  const internal::TopReport& report = frame.report;
  std::vector<std::pair<std::string, Style>> parts;
  if (frame.view.paused) parts.push_back({"paused", {Role::warned, false, true}});
  if (report.at_ns() == 0) {
    parts.push_back({"sampling", {Role::faint}});
    return parts;
  }
  if (!frame.view.paused && frame.age > frame.view.interval + kStaleAfter) {
    parts.push_back(
        {"no sample for " + brief_duration(frame.age.count()), {Role::bad, false, true}});
  }
  if (report.has_agent()) {
    const bool dry = report.agent().config().dry_run();
    const std::string which = narrow ? "agent" : "agent " + report.agent().version();
    parts.push_back(
        {fmt::format("{} pid {}{}", which, report.agent().pid(), dry ? ", dry run" : ""),
         {dry ? Role::warned : Role::good}});
  } else {
    parts.push_back(
        {narrow ? "no agent" : "no agent: observing only", {Role::warned, false, true}});
  }
  for (const v1::ConditionStatus& each : report.agent().conditions()) {
    if (each.status()) parts.push_back({each.type(), {Role::bad, false, true}});
  }
  if (!report.has_agent()) {
    parts.push_back(
        {shortened(report.agent_problem(), kProblemWidth, frame.glyphs), {Role::faint}});
  }
  parts.push_back({report.ranking() + " order", {Role::plain}});
  if (report.has_agent()) {
    parts.push_back({"up " + brief_duration(report.agent().uptime_ns()), {Role::faint}});
  }
  parts.push_back({fmt::format("{}, Linux {}", report.node(), report.kernel()), {Role::faint}});
  return parts;
}

void draw_title(const Frame& frame, Screen& screen) {
  const std::string clock =
      frame.report.at_ns() == 0 ? "" : clock_text(frame, frame.report.read_at().seconds());
  const bool narrow = screen.size().width < kWideEnough;
  const std::string right =
      narrow ? clock : clock + " every " + brief_duration(frame.view.interval.count());
  int room = screen.size().width - width_of(right) - 1;
  screen.write_right(screen.size().width, 0, right, {Role::faint});
  int x = screen.write(0, 0, "forestall top", {Role::accent, false, true}, room);
  for (const auto& [text, style] : title_parts(frame, narrow)) {
    if (text.empty()) continue;
    // The first part is shown even if it is cut.
    const bool first = x == 13;
    if (!first && x + 3 + width_of(text) > room) continue;
    x = screen.write(x, 0, " " + to_utf8(frame.glyphs.separator) + " ", {Role::faint});
    x = screen.write(x, 0, shortened(text, room - x, frame.glyphs), style);
  }
}

std::string thresholds_title(const Frame& frame) {
  const int unknown = frame.report.unknown_thresholds_size();
  return unknown == 0 ? "thresholds" : fmt::format("thresholds, {} unknown", unknown);
}

// Explains the selected row, or the next victim.
void draw_explanation(const Frame& frame, int y, Screen& screen) {
  const internal::TopReport& report = frame.report;
  int index = report.has_next_victim() ? static_cast<int>(report.next_victim()) : -1;
  std::string head = "next victim: ";
  if (frame.view.selected) {
    for (int i = 0; i < report.workloads_size(); ++i) {
      if (report.workloads(i).candidate().sample().workload().path() != *frame.view.selected) {
        continue;
      }
      if (i != index) head = fmt::format("number {}: ", i + 1);
      index = i;
    }
  }
  if (index < 0) {
    if (report.workloads_size() > 0) {
      screen.write(0, y, "no workload may be evicted", {Role::warned, false, true});
    }
    return;
  }
  const bool victim = head.starts_with("next");
  const Style style{victim ? Role::bad : Role::accent, false, true};
  int x = screen.write(0, y, head, style);
  x = screen.write(x, y, report.workloads(index).candidate().sample().workload().name(), style);
  x = screen.write(x, y, "  ", {});
  screen.write(x, y, shortened(explanation(report, index), screen.size().width - x, frame.glyphs),
               {});
}

void draw_foot(const Frame& frame, int y, const Layout& layout, Screen& screen) {
  int x = 0;
  const bool opened = frame.view.opened.has_value();
  if (!opened && (frame.view.filtering || !frame.view.filter.empty())) {
    x = screen.write(x, y, "/" + frame.view.filter, {Role::accent, false, true});
    if (frame.view.filtering) screen.put(x++, y, U' ', {Role::accent, true});
    x += 2;
  }
  const std::string other = layout.ranking == "kernel" ? "kubelet order" : "kernel order";
  using Keys = std::vector<std::pair<const char*, std::string>>;
  const char* pause = frame.view.paused ? "resume" : "pause";
  const Keys keys =
      opened ? Keys{{"q", "quit"},
                    {"?", "help"},
                    {"Esc", "workloads"},
                    {"p", pause},
                    {"+-", "interval"}}
             : Keys{{"q", "quit"},   {"?", "help"},          {"k", other}, {"s", "sort"},
                    {"/", "filter"}, {"Enter", "processes"}, {"p", pause}, {"+-", "interval"}};
  const int first = opened ? layout.process_scroll : layout.scroll;
  const int all = opened ? layout.processes : static_cast<int>(layout.order.size());
  const int shown =
      opened ? std::min(all - first, layout.page) : static_cast<int>(layout.rows.size());
  const std::string place =
      shown == 0 ? "" : fmt::format("{}-{} of {}", first + 1, first + shown, all);
  const int room = screen.size().width - width_of(place) - 1;
  for (const auto& [key, does] : keys) {
    if (x + width_of(key) + width_of(does) + 1 > room) break;
    x = screen.write(x, y, key, {Role::accent, false, true});
    x = screen.write(x + 1, y, does, {Role::faint}) + 2;
  }
  screen.write_right(screen.size().width, y, place, {Role::faint});
}

void draw_help(const Frame& frame, Screen& screen) {
  static constexpr std::array<std::pair<const char*, const char*>, 21> kLines{
      {{"q", "quit"},
       {"k", "kubelet's eviction order, or the order of the OOM killer"},
       {"s, r", "sort by the next column; reverse the order"},
       {"/", "show workloads whose name or path contains a text; Esc: all"},
       {"up, down", "select a workload and explain its rank"},
       {"enter", "the processes of the selected workload; Esc: back"},
       {"pgup, pgdn", "a page; home, end, g, G: the first, the last"},
       {"p, space", "pause, resume"},
       {"+, -", "longer, shorter interval"},
       {"mouse", "click a row or a heading, scroll"},
       {"", ""},
       {"bar", "working set, then page cache that can be dropped, then free"},
       {"", "memory; the marks are the thresholds of memory.available,"},
       {"", "and the line at which the agent starts to pre-rank"},
       {"threshold", "history and bar of the part in use; the bar is the capacity, its"},
       {"", "mark the threshold. The highest level of the history: it was"},
       {"", "reached. ?: unknown"},
       {"stalled", "share of the time in which some, or all, tasks waited;"},
       {"", "its height is the square root of the share"},
       {"stall/s", "how long some task of it waited for memory in a second"},
       {"change/s", "of its working set"}}};
  int y = 0;
  screen.write(0, y, "forestall top", {Role::accent, false, true});
  screen.write_right(screen.size().width, y, "press any key to return", {Role::faint});
  y += screen.size().height > 19 ? 2 : 1;
  for (const auto& [key, does] : kLines) {
    screen.write(1, y, key, {Role::accent, false, true});
    screen.write(13, y, shortened(does, screen.size().width - 13, frame.glyphs), {});
    ++y;
  }
}

}  // namespace

void draw_rule(const Frame& frame, int y, const std::string& title, Screen& screen) {
  for (int x = 0; x < screen.size().width; ++x) {
    screen.put(x, y, frame.glyphs.rule, {Role::faint});
  }
  screen.write(2, y, " " + title + " ", {Role::title, false, true});
}

std::string clock_text(const Frame& frame, std::int64_t seconds) {
  constexpr std::int64_t kDay = 86400;
  const std::int64_t of_day = (((seconds + frame.utc_offset.count()) % kDay) + kDay) % kDay;
  return fmt::format("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60);
}

std::string brief_duration(std::int64_t ns) {
  if (ns < 1'000'000) return fmt::format("{:.1f} us", static_cast<double>(ns) / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.4g} ms", static_cast<double>(ns) / 1e6);
  const std::int64_t seconds = ns / 1'000'000'000;
  if (seconds < 60) {
    const std::int64_t tenths = ns / 100'000'000 % 10;
    return tenths == 0 ? fmt::format("{} s", seconds) : fmt::format("{}.{} s", seconds, tenths);
  }
  if (seconds < 3600) return fmt::format("{}m {}s", seconds / 60, seconds % 60);
  if (seconds < 86400) return fmt::format("{}h {}m", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{}d {}h", seconds / 86400, seconds / 3600 % 24);
}

Drawn draw(const Frame& frame, Size size) {
  Drawn drawn{Screen(size), {}};
  Screen& screen = drawn.screen;
  drawn.layout.ranking = frame.report.ranking();
  if (size.width < 1 || size.height < 1) return drawn;
  if (frame.view.help) {
    draw_help(frame, screen);
    return drawn;
  }
  const Shares shares = shares_of(frame, size.height);
  draw_title(frame, screen);
  int y = 1;
  if (size.height > 2) y = draw_memory(frame, y, shares.memory, screen);
  if (frame.view.opened) {
    drawn.layout.scroll = frame.view.scroll;
    y = draw_processes(frame, y, size.height - y - 1, screen, drawn.layout);
    draw_foot(frame, size.height - 1, drawn.layout, screen);
    return drawn;
  }
  y = draw_pressure(frame, y, shares.pressure, screen);
  if (shares.rules) draw_rule(frame, y++, thresholds_title(frame), screen);
  y = draw_thresholds(frame, y, shares.thresholds, screen);
  if (shares.rules) draw_rule(frame, y++, "workloads", screen);
  if (shares.explanation > 0) draw_explanation(frame, y++, screen);
  const int below = 1 + shares.decisions + (shares.rules && shares.decisions > 0 ? 1 : 0);
  y = draw_workloads(frame, y, size.height - y - below, screen, drawn.layout);
  if (shares.decisions > 0) {
    y = size.height - below;
    if (shares.rules) draw_rule(frame, y++, "decisions", screen);
    draw_decisions(frame, y, shares.decisions, screen);
  }
  draw_foot(frame, size.height - 1, drawn.layout, screen);
  return drawn;
}

}  // namespace forestall::top
