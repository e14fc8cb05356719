// SPDX-License-Identifier: Apache-2.0
// UTF-8 conversion: protobuf strings, JSON and configuration files must be valid UTF-8, but names
// of cgroups may contain any byte except '/' and NUL.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace forestall::text {

// Offset of the first byte that is not part of a well-formed sequence (overlong forms, surrogates
// and values above U+10FFFF are not well-formed); nothing if the whole text is UTF-8.
[[nodiscard]] std::optional<std::size_t> find_invalid_utf8(std::string_view text);

// `text` with each invalid byte replaced by U+FFFD. Lossy: output with such a name also contains
// the cgroup's id.
[[nodiscard]] std::string to_utf8(std::string_view text);

}  // namespace forestall::text
