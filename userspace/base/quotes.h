// SPDX-License-Identifier: Apache-2.0
// Text from outside in a message: its beginning and its end must be seen.
#pragma once

#include <string>
#include <string_view>

namespace forestall {

// 'text', cut after 80 bytes at the boundary of a UTF-8 character, which an ellipsis shows.
[[nodiscard]] std::string in_quotes(std::string_view text);

// "text" as it is, for messages that repeat the words of another program.
[[nodiscard]] std::string in_double_quotes(std::string_view text);

}  // namespace forestall
