// SPDX-License-Identifier: Apache-2.0
// gRPC's encoding in HTTP/2 (PROTOCOL-HTTP2.md), in both directions: status codes, messages with a
// prefix of five bytes, error texts in headers. No I/O. The input is from another process and is
// not trusted.
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

namespace forestall::wire {

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
// The value of a grpc-status header; `unknown` for an invalid one.
[[nodiscard]] GrpcStatus parse_grpc_status(std::string_view text);

// A message in a body: a prefix of five bytes (not compressed, length), then the message.
[[nodiscard]] std::string grpc_frame(std::string_view message);

// The text of a grpc-message header; invalid escapes are kept as they are.
[[nodiscard]] std::string percent_decode(std::string_view text);
// The inverse: characters other than printable ASCII, and '%', become %XX.
[[nodiscard]] std::string percent_encode(std::string_view text);

// A grpc-timeout header: up to eight digits and one of H, M, S, m, u, n. Nothing: invalid.
[[nodiscard]] std::optional<Duration> parse_grpc_timeout(std::string_view text);
// Writes a grpc-timeout: in milliseconds, rounded up, at least 1 and at most eight digits (a day).
[[nodiscard]] std::string grpc_timeout(Duration patience);

// Splits a body into its messages as it arrives.
class GrpcMessageReader {
 public:
  // `max_message` is the longest message accepted, bytes. The reader never holds more, whatever
  // length the body declares.
  explicit GrpcMessageReader(std::size_t max_message) : max_message_(max_message) {}

  // Appends the messages that are complete now. EPROTO: compressed, although no compression was
  // offered; EMSGSIZE: too long. After an error the reader must not be used.
  [[nodiscard]] Result<void> read(std::string_view bytes, std::vector<std::string>& messages);
  // Whether no part of an incomplete message is held.
  [[nodiscard]] bool between_messages() const { return prefix_.empty(); }

 private:
  std::size_t max_message_;
  std::string prefix_;  // the five bytes before the message, as far as received
  std::size_t length_ = 0;
  std::string message_;
};

}  // namespace forestall::wire
