// SPDX-License-Identifier: Apache-2.0
// The answer to a gRPC call, put together from what HTTP/2 delivers: headers, bytes of the body,
// trailers, and the way the stream ended (gRPC over HTTP/2, PROTOCOL-HTTP2.md). It does no I/O and
// trusts nothing: what comes in was written by another process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clients/grpc_wire.h"

namespace forestall::clients {

struct GrpcReply {
  GrpcStatus status = GrpcStatus::unknown;
  int code = 0;         // errno, where the failure is a system call's or this client's own
  std::string message;  // of a failure
  std::string body;     // the one message of a success

  [[nodiscard]] bool ok() const { return status == GrpcStatus::ok; }
};

// Where the headers and the body of one answer go.
class GrpcSink {
 public:
  virtual ~GrpcSink() = default;
  // One header or trailer.
  virtual void header(std::string_view name, std::string_view value) = 0;
  // False when the answer will not be accepted: the stream can be given up.
  [[nodiscard]] virtual bool data(std::string_view bytes) = 0;
};

// How an answer ended, from its headers and trailers: a status, and no message.
class GrpcEnding {
 public:
  void header(std::string_view name, std::string_view value);
  // The stream has ended with this HTTP/2 error code (RFC 9113 §7).
  [[nodiscard]] GrpcReply finish(std::uint32_t error_code) const;

 private:
  [[nodiscard]] GrpcReply without_status(std::uint32_t error_code) const;

  std::string http_status_;
  std::optional<std::string> grpc_status_;
  std::string grpc_message_;
};

// An answer of one message.
class GrpcReplyReader final : public GrpcSink {
 public:
  // `max_message` is the longest answer accepted, bytes.
  explicit GrpcReplyReader(std::size_t max_message) : messages_(max_message) {}

  void header(std::string_view name, std::string_view value) override;
  [[nodiscard]] bool data(std::string_view bytes) override;
  // The stream has ended with this HTTP/2 error code.
  [[nodiscard]] GrpcReply finish(std::uint32_t error_code) &&;

 private:
  GrpcEnding ending_;
  GrpcMessageReader messages_;
  std::vector<std::string> read_;
  std::optional<GrpcReply> refusal_;
};

// An answer of any number of messages, each there as soon as it is whole.
class GrpcStreamReader final : public GrpcSink {
 public:
  // `max_message` is the longest message accepted, bytes.
  explicit GrpcStreamReader(std::size_t max_message) : messages_(max_message) {}

  void header(std::string_view name, std::string_view value) override;
  [[nodiscard]] bool data(std::string_view bytes) override;
  // The next message; nothing: none is whole yet.
  [[nodiscard]] std::optional<std::string> next();
  // How it ended: ok, or why not; its body is empty.
  [[nodiscard]] GrpcReply finish(std::uint32_t error_code) const;

 private:
  GrpcEnding ending_;
  GrpcMessageReader messages_;
  std::deque<std::string> read_;
  std::optional<GrpcReply> refusal_;
};

}  // namespace forestall::clients
