// SPDX-License-Identifier: Apache-2.0
// A gRPC call with any number of answer messages, such as a running agent's events. Only open() can
// block, while the server's backlog is full.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "wire/grpc_exchange.h"
#include "wire/grpc_reply.h"

namespace forestall::wire {

// Thread rule: one thread.
class GrpcStream {
 public:
  // The longest message accepted.
  static constexpr std::size_t kMessageMax = std::size_t{16} << 20;

  // Connects to the unix socket and sends the request. Errors are those of connect(); ETIMEDOUT.
  static Result<std::unique_ptr<GrpcStream>> open(const std::string& socket,
                                                  std::string_view method, std::string_view message,
                                                  Duration patience);

  [[nodiscard]] int fd() const { return exchange_.fd(); }
  // Events to poll for.
  [[nodiscard]] short events() const { return exchange_.events(); }
  // Sends and receives as much as possible without blocking.
  void advance();
  // The next message; nothing: none has arrived.
  [[nodiscard]] std::optional<std::string> next() { return reader_.next(); }
  // How the call ended, once it has; unread messages may remain.
  [[nodiscard]] const std::optional<GrpcReply>& end() const { return end_; }

 private:
  explicit GrpcStream(UniqueFd socket)
      : reader_(kMessageMax), exchange_(std::move(socket), reader_) {}

  GrpcStreamReader reader_;
  GrpcExchange exchange_;
  std::optional<GrpcReply> end_;
};

}  // namespace forestall::wire
