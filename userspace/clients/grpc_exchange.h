// SPDX-License-Identifier: Apache-2.0
// One request and its answer on a connection of its own: HTTP/2 framing between a socket that does
// not block and whoever takes the answer in. Used by calls with one answer (grpc_call) and with
// many (grpc_stream).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "clients/grpc_reply.h"

struct nghttp2_session;

namespace forestall::clients {

// A connected unix socket that does not block. Connecting itself waits, for `patience` at most, and
// only while the server's backlog is full; ETIMEDOUT then.
[[nodiscard]] Result<UniqueFd> connect_to(const std::string& path, Duration patience);

class GrpcExchange {
 public:
  // `sink` outlives this. `socket` is of connect_to().
  GrpcExchange(UniqueFd socket, GrpcSink& sink);
  GrpcExchange(const GrpcExchange&) = delete;
  ~GrpcExchange();

  // Asks, with the one message a request has. The server is told how long there is patience;
  // nothing: it is not.
  Result<void> begin(std::string_view method, std::string_view message,
                     std::optional<Duration> patience);
  [[nodiscard]] int fd() const { return socket_.get(); }
  // What to poll for.
  [[nodiscard]] short events() const;
  // Sends what waits, as far as the socket takes it.
  void send();
  // Takes in what has come. Nothing: go on; else why the connection is of no use any more.
  [[nodiscard]] std::optional<GrpcReply> receive();
  // The HTTP/2 error code of a stream that has ended; nothing: it goes on.
  [[nodiscard]] std::optional<std::uint32_t> ended() const { return ended_; }
  // Whether the server broke the protocol, so that nothing more is read.
  [[nodiscard]] bool broken() const;

 private:
  struct Callbacks;
  struct EndSession {
    void operator()(nghttp2_session* session) const;
  };
  Result<void> open_session();

  UniqueFd socket_;
  GrpcSink& sink_;
  std::string request_;
  std::size_t sent_ = 0;  // of request_
  std::string unsent_;    // of the connection's bytes
  std::optional<std::uint32_t> ended_;
  std::unique_ptr<nghttp2_session, EndSession> session_;
};

}  // namespace forestall::clients
