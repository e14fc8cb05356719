// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace forestall::kubernetes {

// As in the API's objects: RFC 4648 with padding; blanks and line ends are skipped.
[[nodiscard]] std::optional<std::string> decode_base64(std::string_view text);

}  // namespace forestall::kubernetes
