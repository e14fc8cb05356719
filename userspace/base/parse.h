// SPDX-License-Identifier: Apache-2.0
// Parsers of the kernel's small text formats. They take text instead of a file, never allocate, and
// reject text that they cannot parse completely.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace forestall {

// The whole of `text` as a decimal integer. Nothing on overflow, blanks, '+' or any other
// character; parse_u64() also rejects '-'.
[[nodiscard]] std::optional<std::uint64_t> parse_u64(std::string_view text);
[[nodiscard]] std::optional<std::int64_t> parse_i64(std::string_view text);

// `text` without leading and trailing blanks and newlines.
[[nodiscard]] std::string_view trim(std::string_view text);

// Removes the part of `text` up to `separator` and returns it; all of `text` if there is no
// separator.
std::string_view next_field(std::string_view& text, char separator);
// The same for the next run of non-blank characters.
std::string_view next_word(std::string_view& text);

// Whether `path` is `ancestor` or a descendant of it; both absolute, without trailing slash except
// "/".
[[nodiscard]] bool path_is_within(std::string_view path, std::string_view ancestor);

}  // namespace forestall
