// SPDX-License-Identifier: Apache-2.0
#include "tables/table.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/printable.h"

namespace forestall::tables {

std::string human(Bytes bytes) {
  constexpr std::array<const char*, 5> kUnits{"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (std::abs(bytes.count) < 1024) return fmt::format("{} B", bytes.count);
  double amount = static_cast<double>(bytes.count);
  std::size_t unit = 0;
  for (amount /= 1024; std::abs(amount) >= 1024 && unit + 1 < kUnits.size(); ++unit) amount /= 1024;
  return fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

void Table::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += fmt::format("  {:<{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

void Table::print() const {
  fmt::print("{}", text());
}

}  // namespace forestall::tables
