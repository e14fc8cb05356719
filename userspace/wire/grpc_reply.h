// SPDX-License-Identifier: Apache-2.0
// Builds the answer to a gRPC call from what HTTP/2 delivers: headers, body bytes, trailers, and
// how the stream ended (gRPC over HTTP/2, PROTOCOL-HTTP2.md). No I/O. The input is from another
// process and is not trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/grpc_wire.h"

namespace forestall::wire {

struct GrpcReply {
  GrpcStatus status = GrpcStatus::unknown;
  int code = 0;         // errno, if a system call or this client failed
  std::string message;  // of a failure
  std::string body;     // the one message of a success

  [[nodiscard]] bool ok() const { return status == GrpcStatus::ok; }
};

// Receives the headers and the body of one answer.
class GrpcSink {
 public:
  virtual ~GrpcSink() = default;
  // One header or trailer.
  virtual void header(std::string_view name, std::string_view value) = 0;
  // False if the answer is refused: the stream can be cancelled.
  [[nodiscard]] virtual bool data(std::string_view bytes) = 0;
};

// The end of an answer, from its headers and trailers: a status without a message.
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

// An answer of any number of messages; each is available as soon as it is complete.
class GrpcStreamReader final : public GrpcSink {
 public:
  // `max_message` is the longest message accepted, bytes.
  explicit GrpcStreamReader(std::size_t max_message) : messages_(max_message) {}

  void header(std::string_view name, std::string_view value) override;
  [[nodiscard]] bool data(std::string_view bytes) override;
  // The next message; nothing: none is complete yet.
  [[nodiscard]] std::optional<std::string> next();
  // How the answer ended: ok or an error; the body is empty.
  [[nodiscard]] GrpcReply finish(std::uint32_t error_code) const;

 private:
  GrpcEnding ending_;
  GrpcMessageReader messages_;
  std::deque<std::string> read_;
  std::optional<GrpcReply> refusal_;
};

}  // namespace forestall::wire
