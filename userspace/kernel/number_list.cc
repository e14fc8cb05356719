// SPDX-License-Identifier: Apache-2.0
#include "kernel/number_list.h"

#include "base/parse.h"

namespace forestall::kernel {

std::optional<std::vector<std::uint32_t>> parse_number_list(std::string_view text,
                                                            std::uint32_t limit) {
  std::vector<std::uint32_t> numbers;
  text = trim(text);
  while (!text.empty()) {
    const bool more = text.find(',') != std::string_view::npos;
    std::string_view range = next_field(text, ',');
    if (more && text.empty()) return std::nullopt;
    const bool single = range.find('-') == std::string_view::npos;
    const auto first = parse_u64(next_field(range, '-'));
    const auto last = single ? first : parse_u64(range);
    if (!first || !last || *last < *first || *last >= limit) return std::nullopt;
    if (!numbers.empty() && *first <= numbers.back()) return std::nullopt;
    for (auto number = *first; number <= *last; ++number) {
      numbers.push_back(static_cast<std::uint32_t>(number));
    }
  }
  return numbers;
}

}  // namespace forestall::kernel
