// SPDX-License-Identifier: Apache-2.0
#include "cli/managed_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"
#include "base/printable.h"
#include "tables/table.h"

namespace forestall::cli {
namespace {

using v1::ManagedOomStatus;
using Reading = ManagedOomStatus::Reading;

// Hundredths of a percent.
std::string limit_text(std::int64_t permyriad) {
  return fmt::format("{}.{:02} %", permyriad / 100, permyriad % 100);
}

std::string seconds_of_us(std::int64_t us) {
  return fmt::format("{} s", static_cast<double>(us) / 1e6);
}

std::string seconds_of_ns(std::int64_t ns) {
  return fmt::format("{:.1f} s", static_cast<double>(ns) / 1e9);
}

std::string bytes_text(bool known, std::int64_t bytes) {
  return known ? tables::human(Bytes{bytes}) : "-";
}

std::string percent_text(bool known, float percent) {
  return known ? fmt::format("{:.2f}", percent) : "-";
}

std::string count_text(bool known, std::int64_t count) {
  return known ? fmt::format("{}", count) : "-";
}

// The readings are sorted. That of a cgroup that was not read has nothing.
const Reading& reading_of(const ManagedOomStatus& managed, const std::string& cgroup) {
  const auto& readings = managed.readings();
  const auto found = std::ranges::lower_bound(
      readings, cgroup, {},
      [](const Reading& each) -> const std::string& { return each.cgroup(); });
  return found != readings.end() && found->cgroup() == cgroup ? *found
                                                              : Reading::default_instance();
}

std::string head_text(const ManagedOomStatus& managed) {
  std::string text = fmt::format("managedOOM: {}, {}\n", printable(managed.source()),
                                 managed.has_read_ago_ns()
                                     ? "read " + seconds_of_ns(managed.read_ago_ns()) + " ago"
                                     : std::string("not read yet"));
  if (!managed.problem().empty()) {
    text += fmt::format("NOT CURRENT: {}\n", printable(managed.problem()));
  }
  if (managed.has_killed_signal_problem() && !managed.killed_signal_problem().empty()) {
    text += fmt::format("NO SIGNAL after a kill: {}\n", printable(managed.killed_signal_problem()));
  }
  text += fmt::format("swap used limit: {}; memory pressure limit: {} for {}\n",
                      limit_text(managed.swap_used_limit()), limit_text(managed.pressure_limit()),
                      seconds_of_us(managed.pressure_duration_us()));
  text += managed.has_readings_ago_ns()
              ? fmt::format("readings: {} ago\n", seconds_of_ns(managed.readings_ago_ns()))
              : std::string("readings: none yet\n");
  if (managed.has_memory_total()) {
    text += fmt::format("memory: {} of {} used\n", tables::human(Bytes{managed.memory_used()}),
                        tables::human(Bytes{managed.memory_total()}));
  }
  if (managed.has_swap_total()) {
    text += fmt::format("swap: {} of {} used\n", tables::human(Bytes{managed.swap_used()}),
                        tables::human(Bytes{managed.swap_total()}));
  }
  return text;
}

std::string swap_text(const ManagedOomStatus& managed) {
  if (managed.swap().empty()) return "\nNo cgroup is watched for swap\n";
  tables::Table table({"cgroup", "swap", "usage"});
  for (const std::string& cgroup : managed.swap()) {
    const Reading& reading = reading_of(managed, cgroup);
    table.add({cgroup, bytes_text(reading.has_swap(), reading.swap()),
               bytes_text(reading.has_usage(), reading.usage())});
  }
  return "\nWatched for swap\n" + table.text();
}

std::string pressure_text(const ManagedOomStatus& managed) {
  if (managed.pressure().empty()) return "\nNo cgroup is watched for memory pressure\n";
  tables::Table table({"cgroup", "limit", "duration", "avg10", "avg60", "avg300", "total", "usage",
                       "pgscan", "last pgscan"});
  for (const ManagedOomStatus::Pressure& each : managed.pressure()) {
    const Reading& reading = reading_of(managed, each.cgroup());
    table.add({each.cgroup(), limit_text(each.limit()), seconds_of_us(each.duration_us()),
               percent_text(reading.has_avg10(), reading.avg10()),
               percent_text(reading.has_avg60(), reading.avg60()),
               percent_text(reading.has_avg300(), reading.avg300()),
               reading.has_total_us() ? seconds_of_us(reading.total_us()) : "-",
               bytes_text(reading.has_usage(), reading.usage()),
               count_text(reading.has_pgscan(), reading.pgscan()),
               count_text(reading.has_last_pgscan(), reading.last_pgscan())});
  }
  return "\nWatched for memory pressure (full, in percent)\n" + table.text();
}

}  // namespace

std::string managed_status_text(const v1::ManagedOomStatus& managed) {
  return head_text(managed) + swap_text(managed) + pressure_text(managed);
}

}  // namespace forestall::cli
