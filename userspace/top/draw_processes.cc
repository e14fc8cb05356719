// SPDX-License-Identifier: Apache-2.0
// The processes of one workload.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "top/draw_parts.h"
#include "top/rows.h"

namespace forestall::top {
namespace {

// The columns before the last one, which gets the rest of the line.
struct ProcessColumn {
  std::string_view heading;
  int width;
  bool right = true;
};
constexpr std::array<ProcessColumn, 7> kColumns{{{"pid", 7},
                                                 {"command", 15, false},
                                                 {"RSS", 7},
                                                 {"swap", 7},
                                                 {"adj", 5},
                                                 {"points", 9},
                                                 {"threads", 7}}};
constexpr std::string_view kLast = "protected";

const internal::TopWorkload* workload_at(const internal::TopReport& report,
                                         const std::string& path) {
  for (const internal::TopWorkload& each : report.workloads()) {
    if (each.candidate().sample().workload().path() == path) return &each;
  }
  return nullptr;
}

// Why the agent does not kill the workload; empty: it may.
std::string protection_of(const internal::TopWorkload* workload) {
  if (workload == nullptr || workload->candidate().exclusion() != v1::Candidate::PROTECTED) {
    return "";
  }
  return workload->protection_reason().empty() ? "with another workload"
                                               : workload->protection_reason();
}

// The agent's reason applies to all processes of the workload, the kernel's to this one.
std::string protection_text(const internal::TopProcess& each, const std::string& workload) {
  std::string text = workload;
  if (!each.kernel_protection().empty()) {
    text += (text.empty() ? "" : "; ") + ("from the kernel: " + each.kernel_protection());
  }
  if (text.empty()) text = "no";
  return each.dying() ? "exiting; " + text : text;
}

std::array<std::string, kColumns.size()> cells_of(const internal::TopProcess& each) {
  return {fmt::format("{}", each.pid()),
          each.command(),
          brief_bytes(each.rss_bytes()),
          each.swap_bytes() == 0 ? "0" : brief_bytes(each.swap_bytes()),
          fmt::format("{}", each.oom_score_adj()),
          each.has_points() ? fmt::format("{}", each.points()) : "-",
          fmt::format("{}", each.threads())};
}

template <typename Texts>
void draw_cells(const Frame& frame, const Texts& texts, std::string_view last, const Style& style,
                int y, Screen& screen) {
  int x = 1;
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    const ProcessColumn& column = kColumns[i];
    const std::string text = shortened(texts[i], column.width, frame.glyphs);
    if (column.right) {
      screen.write_right(x + column.width, y, text, style);
    } else {
      screen.write(x, y, text, style);
    }
    x += column.width + 1;
  }
  screen.write(x, y, shortened(last, screen.size().width - x, frame.glyphs), style);
}

void draw_process_headings(const Frame& frame, int y, Screen& screen) {
  const Style style{Role::title, true};
  screen.write(0, y, std::string(static_cast<std::size_t>(screen.size().width), ' '), style);
  std::array<std::string_view, kColumns.size()> texts;
  std::ranges::transform(kColumns, texts.begin(), &ProcessColumn::heading);
  draw_cells(frame, texts, kLast, style, y, screen);
}

std::string summary_of(const internal::TopProcesses& list) {
  std::string text =
      fmt::format("{} process{}, {} RSS, {} swap", list.count(), list.count() == 1 ? "" : "es",
                  brief_bytes(list.rss_bytes()), brief_bytes(list.swap_bytes()));
  const std::uint64_t listed = static_cast<std::uint64_t>(list.processes_size());
  if (listed < list.count()) {
    text += fmt::format("; the {} largest, {} not shown", listed, list.count() - listed);
  }
  return text;
}

// Why there is no list. Empty: there is one.
std::string absence_of(const Frame& frame) {
  const internal::TopReport& report = frame.report;
  if (!report.has_processes() || report.processes().path() != *frame.view.opened) {
    return frame.view.paused ? "paused: p resumes and reads the processes" : "sampling";
  }
  if (!report.processes().problem().empty()) {
    return "processes unknown: " + report.processes().problem();
  }
  return report.processes().count() == 0 ? "no processes" : "";
}

}  // namespace

int draw_processes(const Frame& frame, int y, int height, Screen& screen, Layout& layout) {
  if (height < 1) return y;
  const int end = y + height;
  const std::string& path = *frame.view.opened;
  const auto* workload = workload_at(frame.report, path);
  const std::string name =
      workload == nullptr ? path : workload->candidate().sample().workload().name();
  draw_rule(frame, y++, "processes of " + name, screen);
  const std::string absence = absence_of(frame);
  if (!absence.empty()) {
    screen.write(1, y, shortened(absence, screen.size().width - 1, frame.glyphs), {Role::warned});
    return end;
  }
  const internal::TopProcesses& list = frame.report.processes();
  if (height > 4) {
    const int x = screen.write(1, y, summary_of(list), {Role::strong, false, true}) + 2;
    screen.write(x, y, shortened(path, screen.size().width - x, frame.glyphs), {Role::faint});
    ++y;
  }
  draw_process_headings(frame, y++, screen);
  layout.page = std::max(end - y, 1);
  layout.processes = list.processes_size();
  layout.process_scroll =
      std::clamp(frame.view.process_scroll, 0, std::max(layout.processes - layout.page, 0));
  const std::string protection = protection_of(workload);
  for (int i = layout.process_scroll; i < layout.processes && y < end; ++i, ++y) {
    const internal::TopProcess& each = list.processes(i);
    const bool spared = !protection.empty() || !each.kernel_protection().empty();
    const Style style{each.dying() ? Role::warned : spared ? Role::faint : Role::plain};
    draw_cells(frame, cells_of(each), protection_text(each, protection), style, y, screen);
  }
  return end;
}

}  // namespace forestall::top
