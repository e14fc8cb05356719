// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <fmt/format.h>

#include <system_error>

namespace forestall {

std::string Error::text() const {
  if (code == 0) return message;
  return fmt::format("{}: {}", message, std::generic_category().message(code));
}

Error Error::in(std::string_view where) const {
  return Error{code, fmt::format("{}: {}", where, message)};
}

Error errno_error(std::string_view operation, std::string_view object) {
  const int code = errno;
  return Error{code, fmt::format("{} {}", operation, object)};
}

Error error(std::string message) {
  return Error{0, std::move(message)};
}

}  // namespace forestall
