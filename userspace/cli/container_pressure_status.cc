// SPDX-License-Identifier: Apache-2.0
#include "cli/container_pressure_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "base/printable.h"
#include "cli/shortened.h"
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

// A lift outlives what came of the stage that made it.
std::string result_of(const v1::PressedCgroup& pressed) {
  if (!pressed.has_lifted_from()) return pressed.result();
  const std::string before = tables::human(Bytes{pressed.lifted_from()});
  if (pressed.result().empty()) return "memory.high is lifted, from " + before;
  return pressed.result() + ", from " + before;
}

std::string table_of(const v1::ContainerPressureStatus& status) {
  tables::Table table(
      {"container", "cause", "stage", "high/s", "max/s", "PSI", "pressed for", "result"});
  const int rows = std::min(status.pressed_size(), kPressedRowsMax);
  for (int i = 0; i < rows; ++i) {
    const v1::PressedCgroup& each = status.pressed(i);
    table.add({shortened(each.subject(), 40), each.cause(), each.stage(),
               value_of_pressure(each.has_high_events(), each.high_events(), ""),
               value_of_pressure(each.has_max_events(), each.max_events(), ""),
               value_of_pressure(each.has_psi(), each.psi(), " %"),
               brief(std::chrono::nanoseconds(each.pressed_ns())), result_of(each)});
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
