// SPDX-License-Identifier: Apache-2.0
// The node as a running agent tells it, over its socket.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "clients/grpc_stream.h"
#include "forestall/v1/service.pb.h"
#include "forestall/v1/top.pb.h"

namespace forestall::top {

// Thread rule: one thread.
class AgentEye {
 public:
  // `cancel_fd`: readable, whatever is asked is given up.
  AgentEye(std::string socket, int cancel_fd);

  // Asks for its status and for the order; `ranking` empty: that of its configuration. Errors:
  // whatever connecting says, ETIMEDOUT, ECANCELED, and what the agent answered. While it ranks for
  // somebody else, the last order is told again.
  [[nodiscard]] Result<void> look(const std::string& ranking, v1::TopReport& report);

  // Readable when the agent has acted, or is gone: look again. -1: there is nothing to watch.
  [[nodiscard]] int news_fd() const { return records_ ? records_->fd() : -1; }
  [[nodiscard]] short news_events() const { return records_ ? records_->events() : short{0}; }
  // Whether there was news. What it is, the next look tells.
  [[nodiscard]] bool take_news();

 private:
  template <typename Response>
  [[nodiscard]] Result<Response> ask(const char* method, const std::string& request,
                                     bool& busy) const;

  const std::string socket_;
  const int cancel_fd_;
  std::optional<v1::RankResponse> ranked_;
  std::unique_ptr<clients::GrpcStream> records_;
};

}  // namespace forestall::top
