// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace forestall::kubernetes {

// `text` as one segment of a path or one value of a query: all but letters, digits and "-._~" as
// %XX (RFC 3986 §2.3).
[[nodiscard]] std::string percent_encoded(std::string_view text);

}  // namespace forestall::kubernetes
