// SPDX-License-Identifier: Apache-2.0
// The answer to one unary gRPC call, put together from what HTTP/2 delivers: headers, bytes of the
// body, trailers, and the way the stream ended (gRPC over HTTP/2, PROTOCOL-HTTP2.md). It does no
// I/O and trusts nothing: what comes in was written by another process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace forestall::clients {

// gRPC's status codes, numbered as on the wire.
enum class GrpcStatus : std::uint8_t {
  ok = 0,
  cancelled = 1,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  already_exists = 6,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  out_of_range = 11,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  data_loss = 15,
  unauthenticated = 16,
};

[[nodiscard]] std::string_view to_string(GrpcStatus status);

struct GrpcReply {
  GrpcStatus status = GrpcStatus::unknown;
  int code = 0;         // errno, where the failure is a system call's or this client's own
  std::string message;  // of a failure
  std::string body;     // the one message of a success

  [[nodiscard]] bool ok() const { return status == GrpcStatus::ok; }
};

// The request's body: `message` behind the five bytes that say "not compressed" and how long.
[[nodiscard]] std::string grpc_frame(std::string_view message);

// The text of a grpc-message header; what is not a valid escape stays as it is.
[[nodiscard]] std::string percent_decode(std::string_view text);

class GrpcReplyReader {
 public:
  // `max_message` is the longest answer accepted, bytes.
  explicit GrpcReplyReader(std::size_t max_message) : max_message_(max_message) {}

  // One header or trailer.
  void header(std::string_view name, std::string_view value);
  // False when the answer will not be accepted: the stream can be given up.
  [[nodiscard]] bool data(std::string_view bytes);
  // The stream has ended with this HTTP/2 error code (RFC 9113 §7).
  [[nodiscard]] GrpcReply finish(std::uint32_t error_code) &&;

 private:
  [[nodiscard]] bool refuse(int code, std::string why);
  [[nodiscard]] GrpcReply without_status(std::uint32_t error_code) const;

  std::size_t max_message_;
  std::string http_status_;
  std::optional<std::string> grpc_status_;
  std::string grpc_message_;
  std::string prefix_;  // the five bytes before the message, as far as they came
  std::size_t length_ = 0;
  std::string body_;
  std::optional<GrpcReply> refusal_;
};

}  // namespace forestall::clients
