// SPDX-License-Identifier: Apache-2.0
// Untrusted text for a terminal. Names of cgroups and processes may contain any byte: escape
// sequences, line ends, and controls that make a line read as another.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace forestall {

// Length of the first character of `text`; 0 if a terminal must not receive it: a control of ASCII
// or C1 (U+0080 to U+009F), a line or bidirectional control, or a byte that is not UTF-8. An 8-bit
// terminal executes such bytes too. REQUIRES: `text` is not empty.
[[nodiscard]] std::size_t printable_length(std::string_view text);

// Each control as '?', each byte that is not UTF-8 as U+FFFD.
[[nodiscard]] std::string printable(std::string_view text);

// Each byte of what must not be printed as \xNN, a line broadcast as \n. `quoted` are further
// characters that get a backslash.
[[nodiscard]] std::string escaped(std::string_view text, std::string_view quoted = {});

// Several lines, each as printable().
[[nodiscard]] std::string printable_lines(std::string_view text);

}  // namespace forestall
