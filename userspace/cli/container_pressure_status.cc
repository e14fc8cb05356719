// SPDX-License-Identifier: Apache-2.0
#include "cli/container_pressure_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "base/printable.h"
#include "cli/shortened.h"
#include "exports/amount_text.h"
#include "model/container_pressure.h"
#include "model/duration.h"
#include "tables/table.h"

namespace forestall::cli {
namespace {

constexpr int kPressedRowsMax = 20;

std::string value_of_pressure(bool known, double value, const char* unit) {
  return known ? fmt::format("{:.1f}{}", value, unit) : "unknown";
}

std::string counted_containers(std::uint64_t count) {
  return count == 1 ? "1 container" : fmt::format("{} containers", count);
}

// What came of an earlier stage does not count while none follows.
std::string result_of(const v1::PressedCgroup& pressed) {
  if (pressed.has_lifted_from()) {
    const std::string before = exports::amount_text(pressed.lifted_from());
    return (pressed.result().empty() ? "memory.high is lifted" : pressed.result()) + ", from " +
           before;
  }
  const auto is_for = [&](PressureCause cause) { return pressed.cause() == to_string(cause); };
  if (is_for(PressureCause::limit_above)) return "only reported: a cgroup above it is full";
  if (is_for(PressureCause::node)) return "left to the thresholds of the node";
  if (is_for(PressureCause::unknown))
    return "nothing is done: the memory of the node or its limit is unknown";
  return pressed.result();
}

// The time counts at its own limit only.
std::string time_of_pressure(const v1::PressedCgroup& pressed) {
  if (pressed.pressed_ns() == 0 && pressed.cause() != to_string(PressureCause::own_limit)) {
    return "-";
  }
  return brief(std::chrono::nanoseconds(pressed.pressed_ns()));
}

std::string table_of(const v1::ContainerPressureStatus& status) {
  tables::Table table(
      {"container", "cause", "stage", "high/s", "max/s", "PSI", "at its limit", "result"});
  const int rows = std::min(status.pressed_size(), kPressedRowsMax);
  for (int i = 0; i < rows; ++i) {
    const v1::PressedCgroup& each = status.pressed(i);
    table.add({shortened(each.subject(), 40), each.cause(), each.stage(),
               value_of_pressure(each.has_high_events(), each.high_events(), ""),
               value_of_pressure(each.has_max_events(), each.max_events(), ""),
               value_of_pressure(each.has_psi(), each.psi(), " %"), time_of_pressure(each),
               result_of(each)});
  }
  const std::uint64_t more =
      status.pressed_left_out() + static_cast<std::uint64_t>(status.pressed_size() - rows);
  return (rows > 0 ? table.text() : "") + (more > 0 ? fmt::format("  and {} more\n", more) : "");
}

std::string counts_of(const v1::ContainerPressureStatus& status) {
  if (!status.problem().empty()) return {};
  std::string text = fmt::format("  watched: {}", counted_containers(status.watched()));
  const auto add = [&](std::uint64_t count, std::string_view words) {
    if (count > 0) text += fmt::format("\n  {}: {}", words, counted_containers(count));
  };
  add(status.exempt(), "exempt, of Guaranteed and static pods");
  add(status.not_watched(), "not watched, beyond the limit or for a reason in the log");
  add(status.unread(), "not readable now, so that their pressure is unknown");
  if (status.unknown_pods() > 0) {
    text += fmt::format("\n  pods whose containers are unknown: {}", status.unknown_pods());
  }
  return text + "\n";
}

std::string since_start(const v1::ContainerPressureStatus& status) {
  if (status.reclaimed_bytes() == 0 && status.lifts() == 0) return {};
  return fmt::format("  since the start: {} reclaimed; lifts of memory.high: {}, restored: {}\n",
                     tables::human(Bytes{static_cast<std::int64_t>(status.reclaimed_bytes())}),
                     status.lifts(), status.restores());
}

}  // namespace

std::string container_pressure_text(const v1::ContainerPressureStatus& status) {
  std::string text = fmt::format("Pressure of containers ({})\n", status.mode());
  if (!status.problem().empty()) {
    text += fmt::format("  nothing is watched: {}\n", printable(status.problem()));
  }
  return text + table_of(status) + counts_of(status) + since_start(status);
}

}  // namespace forestall::cli
