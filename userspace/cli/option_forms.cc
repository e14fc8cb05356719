// SPDX-License-Identifier: Apache-2.0
#include "cli/option_forms.h"

#include <sys/types.h>

#include <algorithm>
#include <limits>

#include "base/parse.h"

namespace forestall::cli {

CLI::Option* add_choice(CLI::App& command, const char* names, const std::vector<std::string>& words,
                        const std::function<void(std::size_t)>& set, const char* help) {
  const auto find = [words, set](const std::string& word) {
    set(static_cast<std::size_t>(std::find(words.begin(), words.end(), word) - words.begin()));
  };
  return command.add_option_function<std::string>(names, find, help)
      ->check(one_of(words))
      ->option_text(CLI::detail::join(words, "|"));
}

// CLI11's own message for a set of words is "Check xml value in {text,json}".
ValueCheck one_of(const std::vector<std::string>& words) {
  return [words](const std::string& word) -> std::string {
    if (std::find(words.begin(), words.end(), word) != words.end()) return {};
    return "unknown value '" + word + "'; use one of: " + CLI::detail::join(words, ", ");
  };
}

// std::strtoull reads "-1" as the largest number.
ValueCheck number_from(std::uint64_t least) {
  return [least](const std::string& word) -> std::string {
    const auto number = parse_u64(word);
    if (number && *number >= least) return {};
    return "invalid number '" + word + "'; use a whole number from " + std::to_string(least);
  };
}

const CLI::Range& pid_range() {
  static const CLI::Range range(1, std::numeric_limits<pid_t>::max(), "PID");
  return range;
}

}  // namespace forestall::cli
