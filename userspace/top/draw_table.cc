// SPDX-License-Identifier: Apache-2.0
// The ranked workloads, and the decisions.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "messages/json.h"
#include "top/draw_parts.h"
#include "top/rows.h"

namespace forestall::top {
namespace {

const std::string& name_of(const internal::TopReport& report, int index) {
  return report.workloads(index).candidate().sample().workload().name();
}

const std::string& path_of(const internal::TopReport& report, int index) {
  return report.workloads(index).candidate().sample().workload().path();
}

// Scrolls so that the selected row is visible.
int scroll_of(const Frame& frame, const std::vector<int>& rows, int page) {
  const int last = std::max(static_cast<int>(rows.size()) - page, 0);
  int scroll = std::clamp(frame.view.scroll, 0, last);
  if (!frame.view.selected) return scroll;
  const auto found = std::ranges::find_if(
      rows, [&](int each) { return path_of(frame.report, each) == *frame.view.selected; });
  if (found == rows.end()) return scroll;
  const auto row = static_cast<int>(found - rows.begin());
  return std::clamp(scroll, row - page + 1, row);
}

void draw_headings(const Frame& frame, const std::vector<ColumnShape>& columns, int y,
                   Screen& screen, Layout& layout) {
  screen.write(0, y, std::string(static_cast<std::size_t>(screen.size().width), ' '),
               {Role::title, true});
  layout.headings_y = y;
  int x = 1;
  for (const ColumnShape& each : columns) {
    const bool sorted = each.column == frame.view.sort;
    std::string text(each.heading);
    if (sorted && each.column != Column::why) {
      text += to_utf8(frame.view.reversed ? frame.glyphs.up : frame.glyphs.down);
    }
    const Style style{sorted ? Role::accent : Role::title, true, sorted};
    text = shortened(text, each.width, frame.glyphs);
    if (each.right) {
      screen.write_right(x + each.width, y, text, style);
    } else {
      screen.write(x, y, text, style);
    }
    layout.headings.push_back({x, each.width + 1, each.column});
    x += each.width + 1;
  }
}

// Style of a cell: evictable workloads are emphasized, protected ones faint.
Style style_of(const Frame& frame, int index, Column column) {
  const internal::TopWorkload& each = frame.report.workloads(index);
  const v1::Candidate& candidate = each.candidate();
  if (frame.report.has_next_victim() && static_cast<int>(frame.report.next_victim()) == index) {
    return {Role::bad, false, true};
  }
  if (candidate.exclusion() == v1::Candidate::KILL_IN_FLIGHT) return {Role::warned};
  if (candidate.exclusion() > v1::Candidate::NONE) return {Role::faint};
  if (column == Column::stall && each.stall_ns_per_second() >= 100'000'000) {
    return {Role::warned, false, true};
  }
  if (column == Column::stall && each.stall_ns_per_second() >= 10'000'000) return {Role::warned};
  if (column == Column::over_request && candidate.key().exceeds_request()) return {Role::strong};
  if (column == Column::why || column == Column::order) return {Role::faint};
  return {};
}

void draw_row(const Frame& frame, const std::vector<ColumnShape>& columns, int index, int y,
              Screen& screen) {
  const bool next =
      frame.report.has_next_victim() && static_cast<int>(frame.report.next_victim()) == index;
  const bool selected = frame.view.selected == path_of(frame.report, index);
  if (next) screen.put(0, y, frame.glyphs.next, {Role::bad, false, true});
  int x = 1;
  for (const ColumnShape& each : columns) {
    const std::string text = shortened(cell_text(frame.report, index, each.column, frame.history),
                                       each.width, frame.glyphs);
    const Style style = style_of(frame, index, each.column);
    if (each.right) {
      screen.write_right(x + each.width, y, text, style);
    } else {
      screen.write(x, y, text, style);
    }
    x += each.width + 1;
  }
  if (!selected) return;
  screen.restyle(0, y, screen.size().width, {next ? Role::bad : Role::plain, true, true});
}

std::string word_of(const google::protobuf::EnumDescriptor& words, int value) {
  const auto* found = words.FindValueByNumber(value);
  return found == nullptr || value == 0 ? "" : messages::enum_word(*found);
}

Role role_of(const v1::StatusDecision& each) {
  if (each.by_kernel()) return Role::bad;
  if (each.action() != v1::Decision::KILL) return Role::plain;
  const bool failed =
      each.state() == v1::KillProgress::STUCK || each.state() == v1::KillProgress::FAILED;
  return failed ? Role::bad : each.dry_run() ? Role::warned : Role::strong;
}

}  // namespace

int draw_workloads(const Frame& frame, int y, int height, Screen& screen, Layout& layout) {
  if (height < 1) return y;
  const internal::TopReport& report = frame.report;
  const std::vector<int> rows = rows_of(report, frame.history, frame.view);
  int name_max = 0;
  for (const int each : rows) name_max = std::max(name_max, width_of(name_of(report, each)));
  const bool points = std::ranges::any_of(
      report.comparators(), [](const std::string& each) { return each == "kernel-badness"; });
  const bool stalls =
      std::ranges::any_of(report.workloads(), &internal::TopWorkload::has_stall_ns_per_second);
  const auto columns = fitting_columns(screen.size().width, points, stalls, std::min(name_max, 48));
  draw_headings(frame, columns, y++, screen, layout);
  const int page = std::max(height - 1, 1);
  layout.page = page;
  layout.scroll = scroll_of(frame, rows, page);
  layout.ranking = report.ranking();
  for (const int each : rows) layout.order.push_back(path_of(report, each));
  if (rows.empty()) {
    const char* why = report.at_ns() == 0           ? "sampling"
                      : report.workloads_size() > 0 ? "no workload matches the filter"
                                                    : "no workloads: no pod was found, and no "
                                                      "cgroup matches a workload rule";
    screen.write(2, y, why, {Role::faint});
    return y + page;
  }
  const int end = std::min<int>(layout.scroll + height - 1, static_cast<int>(rows.size()));
  int row_y = y;
  for (int i = layout.scroll; i < end; ++i, ++row_y) {
    const int index = rows[static_cast<std::size_t>(i)];
    draw_row(frame, columns, index, row_y, screen);
    layout.rows.push_back({row_y, path_of(report, index)});
  }
  return y + page;
}

std::vector<const v1::StatusDecision*> acts_of(const internal::TopReport& report) {
  std::vector<const v1::StatusDecision*> acts;
  for (const v1::StatusDecision& each : report.decisions()) {
    if (each.by_kernel() || each.action() != v1::Decision::NONE) acts.push_back(&each);
  }
  return acts;
}

std::string decision_text(const v1::StatusDecision& each) {
  const std::string who = each.victim().empty() ? "no workload" : each.victim();
  const std::string where = each.subject().empty() || each.subject() == "node"
                                ? std::string(each.subject().empty() ? "" : " for the node")
                                : " for " + each.subject();
  if (each.by_kernel()) return "the kernel's OOM killer killed " + who;
  std::string text;
  switch (each.action()) {
    case v1::Decision::KILL:
      text = (each.dry_run() ? "would evict " : "evicted ") + who + where;
      break;
    case v1::Decision::RECLAIM: text = "node-level reclaim" + where; break;
    default: text = word_of(*v1::Decision::Action_descriptor(), each.action()) + where; break;
  }
  text += ", " + word_of(*v1::Decision::Reason_descriptor(), each.reason());
  if (each.has_state()) text += ": " + word_of(*v1::KillProgress::State_descriptor(), each.state());
  if (each.freed_bytes() > 0) text += ", " + brief_bytes(each.freed_bytes()) + " back";
  for (const v1::StageLength& stage : each.stages()) {
    if (stage.stage() != "signal" && stage.stage() != "freed") continue;
    text += fmt::format(", {} after {}", stage.stage() == "signal" ? "signalled" : "freed",
                        brief_duration(stage.length_ns()));
  }
  return text;
}

int draw_decisions(const Frame& frame, int y, int height, Screen& screen) {
  const auto acts = acts_of(frame.report);
  const std::size_t count = std::min(static_cast<std::size_t>(std::max(height, 0)), acts.size());
  for (std::size_t i = 0; i < count; ++i, ++y) {
    const v1::StatusDecision& each = *acts[acts.size() - 1 - i];
    int x = screen.write(0, y, clock_text(frame, each.wall_time().seconds()), {Role::faint}) + 1;
    x = std::min(x, screen.size().width);
    screen.write(x, y, shortened(decision_text(each), screen.size().width - x, frame.glyphs),
                 {role_of(each)});
  }
  return y;
}

}  // namespace forestall::top
