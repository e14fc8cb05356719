// SPDX-License-Identifier: Apache-2.0
// The arguments of the command line in the form that CLI11 takes.
#pragma once

#include <string>
#include <vector>

namespace forestall::cli {

// CLI11 takes the last argument first. `--eviction-hard=` is the kubelet's form of an empty value,
// but CLI11 would use the next argument as the value: an empty argument is inserted.
[[nodiscard]] inline std::vector<std::string> reversed(const std::vector<std::string>& arguments) {
  std::vector<std::string> result;
  for (auto each = arguments.rbegin(); each != arguments.rend(); ++each) {
    const bool empty_value = each->starts_with("--") && each->ends_with('=');
    if (empty_value) result.emplace_back();
    result.push_back(empty_value ? each->substr(0, each->size() - 1) : *each);
  }
  return result;
}

}  // namespace forestall::cli
