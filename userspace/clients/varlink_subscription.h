// SPDX-License-Identifier: Apache-2.0
// One call of a varlink server that is answered by replies without end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "clients/varlink_messages.h"

namespace forestall::clients {

// Never waits. Thread rule: one thread.
class VarlinkSubscription {
 public:
  // Calls `method` with `more` at the first of `sockets` that has a listener. Only root's or the
  // agent's own user's is accepted.
  static Result<VarlinkSubscription> start(const std::vector<std::string>& sockets,
                                           std::string_view method);

  [[nodiscard]] int fd() const { return socket_.get(); }
  // The replies that came since. An error: the connection is of no use any more.
  [[nodiscard]] Result<std::vector<std::string>> receive();

 private:
  explicit VarlinkSubscription(UniqueFd socket) : socket_(std::move(socket)) {}

  UniqueFd socket_;
  VarlinkMessages messages_;
};

}  // namespace forestall::clients
