// SPDX-License-Identifier: Apache-2.0
#include "clients/varlink_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace forestall::clients {

Result<std::vector<std::string>> VarlinkMessages::add(std::string_view received) {
  std::vector<std::string> messages;
  for (;;) {
    const std::size_t end = received.find('\0');
    const std::string_view part = received.substr(0, end);
    if (part.size() > message_max_ - pending_.size()) {
      return error(fmt::format("a message has more than {} bytes", message_max_));
    }
    pending_ += part;
    if (end == std::string_view::npos) return messages;
    messages.push_back(std::exchange(pending_, {}));
    received.remove_prefix(end + 1);
  }
}

}  // namespace forestall::clients
