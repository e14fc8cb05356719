// SPDX-License-Identifier: Apache-2.0
// Tables of configurations and the reader's expected messages, as plain text in tests/data/config.
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

// Reads a table (refused.txt describes its form). A malformed table is returned empty, which its
// test refuses.
[[nodiscard]] std::vector<ConfigCase> read_config_cases(const std::string& path);

void PrintTo(const ConfigCase& config_case, std::ostream* out);

}  // namespace forestall::test
