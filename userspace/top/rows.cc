// SPDX-License-Identifier: Apache-2.0
#include "top/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <compare>
#include <limits>

namespace forestall::top {
namespace {

using Workload = internal::TopWorkload;

constexpr double kUnknown = -std::numeric_limits<double>::infinity();

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char each) { return static_cast<char>(std::tolower(each)); });
  return text;
}

// Sort key of a column: larger first, unknown last.
double amount_of(const Workload& each, Column column, const History& history) {
  const v1::RankKey& key = each.candidate().key();
  switch (column) {
    case Column::working_set: return key.measured() ? static_cast<double>(key.usage()) : kUnknown;
    case Column::stall:
      return each.has_stall_ns_per_second() ? static_cast<double>(each.stall_ns_per_second())
                                            : kUnknown;
    case Column::change:
      return history.change_of(each.candidate().sample().workload().path()).value_or(kUnknown);
    case Column::over_request:
      return key.measured() ? static_cast<double>(key.over_request()) : kUnknown;
    case Column::request: return static_cast<double>(key.request());
    // A lower priority is evicted first.
    case Column::priority: return -static_cast<double>(key.priority());
    case Column::points: return key.has_badness() ? static_cast<double>(key.badness()) : kUnknown;
    case Column::processes:
      return each.candidate().sample().has_processes()
                 ? static_cast<double>(each.candidate().sample().processes())
                 : kUnknown;
    case Column::order:
    case Column::name:
    case Column::why: break;
  }
  return 0;
}

std::string change_text(std::optional<double> change) {
  if (!change) return "-";
  const auto whole = static_cast<std::int64_t>(std::llround(*change));
  // A change of a page is noise.
  if (std::abs(whole) < 4096) return "0";
  return (whole > 0 ? "+" : "") + brief_bytes(whole);
}

std::string why_text(const Workload& each, bool next) {
  const auto exclusion = each.candidate().exclusion();
  switch (exclusion) {
    case v1::Candidate::PROTECTED:
      return "protected: " + (each.protection_reason().empty() ? "it contains a protected "
                                                                 "workload, or is part of one"
                                                               : each.protection_reason());
    case v1::Candidate::KILL_IN_FLIGHT: return "is being killed";
    case v1::Candidate::KILL_FAILED: return "could not be killed";
    case v1::Candidate::EMPTY: return "empty";
    case v1::Candidate::UNKILLABLE: return "the kernel finds no eligible process in it";
    default: break;
  }
  std::string decided = each.decided_by().empty() ? "" : "by " + each.decided_by();
  if (!next) return decided;
  return decided.empty() ? "next" : "next, " + decided;
}

}  // namespace

const std::vector<ColumnShape>& column_shapes() {
  static const std::vector<ColumnShape> kShapes{
      {Column::order, "#", 4, true, 100},
      {Column::name, "workload", 12, false, 99},
      {Column::working_set, "working set", 11, true, 98},
      {Column::stall, "stall/s", 8, true, 97},
      {Column::change, "change/s", 8, true, 70},
      {Column::over_request, "over request", 12, true, 90},
      {Column::request, "request", 8, true, 60},
      {Column::priority, "priority", 10, true, 80},
      {Column::points, "points", 8, true, 95},
      {Column::processes, "procs", 5, true, 30},
      {Column::why, "why", 14, false, 85},
  };
  return kShapes;
}

std::vector<ColumnShape> fitting_columns(int width, bool points, bool stalls, int name_max) {
  std::vector<ColumnShape> columns = column_shapes();
  std::erase_if(columns, [&](const auto& each) {
    return (each.column == Column::points && !points) || (each.column == Column::stall && !stalls);
  });
  const auto taken = [&columns] {
    int cells = 1;  // the mark of the next victim
    for (const ColumnShape& each : columns) cells += each.width + 1;
    return cells;
  };
  while (taken() > width && columns.size() > 2) {
    columns.erase(std::ranges::min_element(columns, {}, &ColumnShape::importance));
  }
  // Spare width goes to names until they fit, then to reasons.
  int width_left = std::max(width - taken(), 0);
  for (ColumnShape& each : columns) {
    if (each.column != Column::name) continue;
    const int more = std::min(width_left, std::max(name_max - each.width, 0));
    each.width += more;
    width_left -= more;
  }
  if (columns.back().column == Column::why) columns.back().width += width_left;
  return columns;
}

std::vector<int> rows_of(const internal::TopReport& report, const History& history,
                         const View& view) {
  std::vector<int> rows;
  const std::string filter = lower(view.filter);
  for (int i = 0; i < report.workloads_size(); ++i) {
    const auto& workload = report.workloads(i).candidate().sample().workload();
    if (filter.empty() || lower(workload.name()).find(filter) != std::string::npos ||
        lower(workload.path()).find(filter) != std::string::npos) {
      rows.push_back(i);
    }
  }
  const auto before = [&](int a, int b) {
    const Workload& left = report.workloads(a);
    const Workload& right = report.workloads(b);
    if (view.sort == Column::name) {
      return left.candidate().sample().workload().name() <
             right.candidate().sample().workload().name();
    }
    return amount_of(left, view.sort, history) > amount_of(right, view.sort, history);
  };
  std::ranges::stable_sort(rows, before);
  if (view.reversed) std::ranges::reverse(rows);
  return rows;
}

std::string cell_text(const internal::TopReport& report, int index, Column column,
                      const History& history) {
  const Workload& each = report.workloads(index);
  const v1::RankKey& key = each.candidate().key();
  const v1::WorkloadSample& sample = each.candidate().sample();
  const bool next = report.has_next_victim() && static_cast<int>(report.next_victim()) == index;
  switch (column) {
    case Column::order: return fmt::format("{}", index + 1);
    case Column::name: return sample.workload().name();
    case Column::working_set: return key.measured() ? brief_bytes(key.usage()) : "unknown";
    case Column::stall:
      if (!each.has_stall_ns_per_second()) return "-";
      if (each.stall_ns_per_second() == 0) return "0";
      return fmt::format("{:.1f} ms", static_cast<double>(each.stall_ns_per_second()) / 1e6);
    case Column::change: return change_text(history.change_of(sample.workload().path()));
    case Column::over_request: return key.measured() ? brief_bytes(key.over_request()) : "unknown";
    case Column::request: return key.request() == 0 ? "-" : brief_bytes(key.request());
    case Column::priority:
      return key.priority_unknown() ? "unknown" : fmt::format("{}", key.priority());
    case Column::points: return key.has_badness() ? fmt::format("{}", key.badness()) : "-";
    case Column::processes:
      return sample.has_processes() ? fmt::format("{}", sample.processes()) : "-";
    case Column::why: return why_text(each, next);
  }
  return "";
}

std::string brief_bytes(std::int64_t bytes) {
  constexpr std::string_view kUnits = "KMGTPE";
  if (std::abs(bytes) < 1024) return fmt::format("{}", bytes);
  double amount = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // 1023.95 would be shown as 1024.0.
  while (std::abs(amount) >= 1023.95 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f}{}", amount, kUnits[unit]);
}

std::string explanation(const internal::TopReport& report, int index) {
  const Workload& each = report.workloads(index);
  const v1::RankKey& key = each.candidate().key();
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (const std::string& rule : report.comparators()) {
    if (rule == "preference") {
      if (key.has_preference()) {
        add(key.preference() == v1::Workload::PREFER ? "preferred" : "avoided");
      }
    } else if (rule == "missing-statistics") {
      if (!key.measured()) add("no statistics");
    } else if (rule == "exceeds-request") {
      if (!key.measured()) continue;
      add(key.request() == 0      ? std::string("no request")
          : key.exceeds_request() ? "exceeds its request of " + brief_bytes(key.request())
                                  : "within its request of " + brief_bytes(key.request()));
    } else if (rule == "priority") {
      add(fmt::format("priority {}", key.priority()));
    } else if (rule == "over-request") {
      if (!key.measured()) continue;
      add(key.over_request() < 0 ? brief_bytes(-key.over_request()) + " below it"
                                 : brief_bytes(key.over_request()) + " over");
    } else if (rule == "growth") {
      add(key.has_growth() ? "grew " + brief_bytes(key.growth()) : std::string("growth unknown"));
    } else if (rule == "kernel-badness") {
      add(key.has_badness() ? fmt::format("{} points", key.badness()) : std::string("no points"));
    }
  }
  const std::string why = why_text(each, false);
  if (each.candidate().exclusion() > v1::Candidate::NONE) return why + "; " + text;
  if (each.decided_by().empty() || index + 1 >= report.workloads_size()) return text;
  const std::string& after = report.workloads(index + 1).candidate().sample().workload().name();
  return text + "; before " + after + " " + why;
}

}  // namespace forestall::top
