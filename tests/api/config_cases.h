// SPDX-License-Identifier: Apache-2.0
// Tables of configurations with what the reader must say about them, kept as plain text under
// tests/data/config so that they read as operators write them.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace forestall::test {

struct ConfigCase {
  std::string name;
  std::string config;
  std::optional<std::string> manifest;
  std::string expected;
};

// Reads a table (its form is described in refused.txt). A malformed table is an empty one, which
// its test refuses.
[[nodiscard]] std::vector<ConfigCase> read_config_cases(const std::string& path);

void PrintTo(const ConfigCase& config_case, std::ostream* out);

}  // namespace forestall::test
