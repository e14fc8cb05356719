// SPDX-License-Identifier: Apache-2.0
// The messages of a varlink connection: JSON objects, each ended by a NUL byte.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace forestall::clients {

// Splits what is received into messages.
class VarlinkMessages {
 public:
  // Of one message, as in systemd.
  static constexpr std::size_t kMessageMax = std::size_t{16} << 20U;

  explicit VarlinkMessages(std::size_t message_max = kMessageMax) : message_max_(message_max) {}

  // The messages that `received` completes, without their NUL. An error: one is longer than
  // permitted, and no later call is of use.
  [[nodiscard]] Result<std::vector<std::string>> add(std::string_view received);

 private:
  std::size_t message_max_;
  std::string pending_;
};

}  // namespace forestall::clients
