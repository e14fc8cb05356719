// SPDX-License-Identifier: Apache-2.0
#include "clients/grpc_reply.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/parse.h"

namespace forestall::clients {
namespace {

constexpr std::size_t kPrefixBytes = 5;
// Longer texts of a failure are cut: they end in a log line.
constexpr std::size_t kMessageBytes = 1024;

constexpr std::array<std::string_view, 17> kWords{
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

std::size_t length_of(std::string_view prefix) {
  std::size_t length = 0;
  for (const char c : prefix.substr(1)) length = (length << 8) | static_cast<unsigned char>(c);
  return length;
}

GrpcStatus parse_status(std::string_view text) {
  const auto number = parse_u64(text);
  if (!number || *number >= kWords.size()) return GrpcStatus::unknown;
  return static_cast<GrpcStatus>(*number);
}

// What gRPC makes of a stream that was reset without a status.
GrpcStatus status_of_reset(std::uint32_t error_code) {
  switch (error_code) {
    case 0x7: return GrpcStatus::unavailable;         // REFUSED_STREAM
    case 0x8: return GrpcStatus::cancelled;           // CANCEL
    case 0xb: return GrpcStatus::resource_exhausted;  // ENHANCE_YOUR_CALM
    case 0xc: return GrpcStatus::permission_denied;   // INADEQUATE_SECURITY
    default: return GrpcStatus::internal;
  }
}

}  // namespace

std::string_view to_string(GrpcStatus status) {
  return kWords[static_cast<std::size_t>(status)];
}

std::string grpc_frame(std::string_view message) {
  std::string frame(1, '\0');
  for (const unsigned shift : {24U, 16U, 8U, 0U}) {
    frame += static_cast<char>((message.size() >> shift) & 0xff);
  }
  return frame.append(message);
}

std::string percent_decode(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto high = i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
    const auto low = i + 2 < text.size() ? hex_digit(text[i + 2]) : std::nullopt;
    if (text[i] == '%' && high && low) {
      decoded += static_cast<char>(*high << 4 | *low);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

void GrpcReplyReader::header(std::string_view name, std::string_view value) {
  // Trailers come after headers: what is said last counts.
  if (name == ":status") http_status_ = value;
  if (name == "grpc-status") grpc_status_ = value;
  if (name == "grpc-message") grpc_message_ = percent_decode(value.substr(0, kMessageBytes));
}

bool GrpcReplyReader::refuse(int code, std::string why) {
  refusal_ = GrpcReply{GrpcStatus::internal, code, std::move(why), ""};
  return false;
}

bool GrpcReplyReader::data(std::string_view bytes) {
  if (refusal_) return false;
  const std::size_t missing = std::min(kPrefixBytes - prefix_.size(), bytes.size());
  const bool prefix_was_complete = missing == 0;
  prefix_.append(bytes.substr(0, missing));
  bytes.remove_prefix(missing);
  if (prefix_.size() < kPrefixBytes) return true;
  if (!prefix_was_complete) {
    length_ = length_of(prefix_);
    if (prefix_[0] != 0) return refuse(EPROTO, "the answer is compressed, which was not offered");
    if (length_ > max_message_) {
      return refuse(EMSGSIZE, "an answer of " + std::to_string(length_) + " bytes, the limit is " +
                                  std::to_string(max_message_));
    }
    body_.reserve(length_);
  }
  if (bytes.size() > length_ - body_.size()) {
    return refuse(EPROTO, "more than one message in the answer");
  }
  body_.append(bytes);
  return true;
}

GrpcReply GrpcReplyReader::without_status(std::uint32_t error_code) const {
  if (error_code != 0) {
    return {status_of_reset(error_code), 0,
            "the runtime reset the call (HTTP/2 error " + std::to_string(error_code) + ")", ""};
  }
  return {GrpcStatus::internal, EPROTO,
          "no gRPC: the answer has no grpc-status, its HTTP status is " +
              (http_status_.empty() ? "missing" : http_status_),
          ""};
}

GrpcReply GrpcReplyReader::finish(std::uint32_t error_code) && {
  if (refusal_) return *std::move(refusal_);
  if (!grpc_status_) return without_status(error_code);
  const GrpcStatus status = parse_status(*grpc_status_);
  if (status != GrpcStatus::ok) return {status, 0, std::move(grpc_message_), ""};
  if (prefix_.size() < kPrefixBytes || body_.size() < length_) {
    return {GrpcStatus::internal, EPROTO, "the answer is cut short", ""};
  }
  return {GrpcStatus::ok, 0, "", std::move(body_)};
}

}  // namespace forestall::clients
