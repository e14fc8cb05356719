// SPDX-License-Identifier: Apache-2.0
// What gRPC puts into HTTP/2 (PROTOCOL-HTTP2.md), in both directions: status codes, messages behind
// five bytes of length, texts of failures in headers. No I/O; what is read here was written by
// another process and is not trusted.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

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
// The value of a grpc-status header; `unknown` for what is none.
[[nodiscard]] GrpcStatus parse_grpc_status(std::string_view text);

// A message as it goes into a body: behind the five bytes that say "not compressed" and how long.
[[nodiscard]] std::string grpc_frame(std::string_view message);

// The text of a grpc-message header; what is not a valid escape stays as it is.
[[nodiscard]] std::string percent_decode(std::string_view text);
// The other way: what is not printable ASCII, and '%', as %XX.
[[nodiscard]] std::string percent_encode(std::string_view text);

// A grpc-timeout header: up to eight digits and one of H, M, S, m, u, n. Nothing: it is none.
[[nodiscard]] std::optional<Duration> parse_grpc_timeout(std::string_view text);
// The same written: in milliseconds, rounded up, from one to what eight digits hold (a day).
[[nodiscard]] std::string grpc_timeout(Duration patience);

// Takes a body apart into its messages as it comes.
class GrpcMessageReader {
 public:
  // `max_message` is the longest message accepted, bytes. No more than that is ever held, however
  // long the body says its message is.
  explicit GrpcMessageReader(std::size_t max_message) : max_message_(max_message) {}

  // Appends the messages that are whole now. EPROTO: compressed, which nobody offered; EMSGSIZE:
  // too long. After an error the reader is of no use.
  [[nodiscard]] Result<void> read(std::string_view bytes, std::vector<std::string>& messages);
  // Nothing of an unfinished message is held.
  [[nodiscard]] bool between_messages() const { return prefix_.empty(); }

 private:
  std::size_t max_message_;
  std::string prefix_;  // the five bytes before the message, as far as they came
  std::size_t length_ = 0;
  std::string message_;
};

}  // namespace forestall::clients
