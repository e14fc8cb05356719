// SPDX-License-Identifier: Apache-2.0
// Parsers of the small text forms the kernel uses. They take text, never a file, never allocate,
// and accept nothing they do not understand completely.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace forestall {

// The whole of `text` as an unsigned (signed) decimal integer; nothing on sign, blank or overflow.
[[nodiscard]] std::optional<std::uint64_t> parse_u64(std::string_view text);
[[nodiscard]] std::optional<std::int64_t> parse_i64(std::string_view text);

// `text` without leading and trailing blanks and newlines.
[[nodiscard]] std::string_view trim(std::string_view text);

// Removes and returns the part of `text` up to `separator` (all of it when there is none).
std::string_view next_field(std::string_view& text, char separator);
// The same for the next run of non-blank characters.
std::string_view next_word(std::string_view& text);

// Whether `path` is `ancestor` or lies below it; both absolute, without trailing slash except "/".
[[nodiscard]] bool path_is_within(std::string_view path, std::string_view ancestor);

}  // namespace forestall
