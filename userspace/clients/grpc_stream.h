// SPDX-License-Identifier: Apache-2.0
// A gRPC call that is answered by any number of messages, for as long as it is wanted: what a
// running agent tells whoever watches it. Nothing here waits but open(), for a full backlog.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "clients/grpc_exchange.h"
#include "clients/grpc_reply.h"

namespace forestall::clients {

// Thread rule: one thread.
class GrpcStream {
 public:
  // The longest message taken.
  static constexpr std::size_t kMessageMax = std::size_t{16} << 20;

  // Connects to the unix socket and asks. Errors are of connect(); ETIMEDOUT.
  static Result<std::unique_ptr<GrpcStream>> open(const std::string& socket,
                                                  std::string_view method, std::string_view message,
                                                  Duration patience);

  [[nodiscard]] int fd() const { return exchange_.fd(); }
  // What to poll for.
  [[nodiscard]] short events() const { return exchange_.events(); }
  // Goes on as far as it can without waiting.
  void advance();
  // The next message; nothing: none has come.
  [[nodiscard]] std::optional<std::string> next() { return reader_.next(); }
  // How it ended, once it has: messages may be left then.
  [[nodiscard]] const std::optional<GrpcReply>& end() const { return end_; }

 private:
  explicit GrpcStream(UniqueFd socket)
      : reader_(kMessageMax), exchange_(std::move(socket), reader_) {}

  GrpcStreamReader reader_;
  GrpcExchange exchange_;
  std::optional<GrpcReply> end_;
};

}  // namespace forestall::clients
