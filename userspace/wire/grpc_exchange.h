// SPDX-License-Identifier: Apache-2.0
// One request and its answer on its own connection: HTTP/2 framing between a non-blocking socket
// and a GrpcSink. Used by calls with one answer (grpc_call) and with many (grpc_stream).
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
#include "wire/grpc_reply.h"

struct nghttp2_session;

namespace forestall::wire {

// A connected, non-blocking unix socket. Connecting blocks only while the server's backlog is full,
// for at most `patience`; then ETIMEDOUT.
[[nodiscard]] Result<UniqueFd> connect_to(const std::string& path, Duration patience);

class GrpcExchange {
 public:
  // `sink` outlives this. `socket` is from connect_to().
  GrpcExchange(UniqueFd socket, GrpcSink& sink);
  GrpcExchange(const GrpcExchange&) = delete;
  ~GrpcExchange();

  // Submits the request with its only message. `patience` is sent to the server as the deadline;
  // nothing: no deadline.
  Result<void> begin(std::string_view method, std::string_view message,
                     std::optional<Duration> patience);
  [[nodiscard]] int fd() const { return socket_.get(); }
  // Events to poll for.
  [[nodiscard]] short events() const;
  // Sends pending bytes until the socket is full.
  void send();
  // Processes received bytes. Nothing: continue; otherwise the error that makes the connection
  // unusable.
  [[nodiscard]] std::optional<GrpcReply> receive();
  // The HTTP/2 error code of a stream that has ended; nothing: it has not.
  [[nodiscard]] std::optional<std::uint32_t> ended() const { return ended_; }
  // Whether the server violated the protocol, so that nothing more is read.
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
  std::string unsent_;    // pending bytes of the connection
  std::optional<std::uint32_t> ended_;
  std::unique_ptr<nghttp2_session, EndSession> session_;
};

}  // namespace forestall::wire
