// SPDX-License-Identifier: Apache-2.0
// Aligned columns and amounts with units.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"

namespace forestall::tables {

// "96.0 MiB", "-1.5 GiB", "512 B".
[[nodiscard]] std::string human(Bytes bytes);

class Table {
 public:
  explicit Table(std::vector<std::string> headings) { rows_.push_back(std::move(headings)); }
  // Cells may hold untrusted names: each is stored as printable(). REQUIRES: one cell per heading.
  void add(std::vector<std::string> cells);
  // Indented by two, two blanks between columns, no trailing blanks.
  [[nodiscard]] std::string text() const;
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace forestall::tables
