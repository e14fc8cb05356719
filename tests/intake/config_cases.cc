// SPDX-License-Identifier: Apache-2.0
#include "intake/config_cases.h"

#include <fstream>

namespace forestall::test {

std::vector<ConfigCase> read_config_cases(const std::string& path) {
  std::ifstream in(path);
  std::vector<ConfigCase> cases;
  std::string* part = nullptr;  // target of the next lines
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("=== ")) {
      cases.push_back({line.substr(4), "", std::nullopt, ""});
      part = &cases.back().config;
    } else if (part == nullptr) {
      if (!line.starts_with('#')) return {};
    } else if (line == "--- manifest.yaml") {
      part = &cases.back().manifest.emplace();
    } else if (line == ">>>") {
      part = &cases.back().expected;
    } else {
      *part += line + "\n";
    }
  }
  for (ConfigCase& config_case : cases) {
    if (config_case.expected.empty()) return {};
    config_case.expected.pop_back();  // the newline before the next case
  }
  return cases;
}

void PrintTo(const ConfigCase& config_case, std::ostream* out) {
  *out << config_case.name;
}

}  // namespace forestall::test
