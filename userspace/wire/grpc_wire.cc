// SPDX-License-Identifier: Apache-2.0
#include "wire/grpc_wire.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/parse.h"

namespace forestall::wire {
namespace {

using std::chrono::ceil;
using std::chrono::milliseconds;

constexpr std::size_t kPrefixBytes = 5;
constexpr std::size_t kTimeoutDigits = 8;

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

// Nanoseconds of a grpc-timeout unit; nothing for another letter.
std::optional<std::int64_t> unit_ns(char unit) {
  switch (unit) {
    case 'H': return 3'600'000'000'000;
    case 'M': return 60'000'000'000;
    case 'S': return 1'000'000'000;
    case 'm': return 1'000'000;
    case 'u': return 1'000;
    case 'n': return 1;
    default: return std::nullopt;
  }
}

}  // namespace

std::string_view to_string(GrpcStatus status) {
  return kWords[static_cast<std::size_t>(status)];
}

GrpcStatus parse_grpc_status(std::string_view text) {
  const auto number = parse_u64(text);
  if (!number || *number >= kWords.size()) return GrpcStatus::unknown;
  return static_cast<GrpcStatus>(*number);
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

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '%') {
      encoded += c;
    } else {
      encoded += '%';
      encoded += kDigits[byte >> 4];
      encoded += kDigits[byte & 0xf];
    }
  }
  return encoded;
}

std::optional<Duration> parse_grpc_timeout(std::string_view text) {
  if (text.size() < 2 || text.size() > kTimeoutDigits + 1) return std::nullopt;
  const auto unit = unit_ns(text.back());
  const auto count = parse_u64(text.substr(0, text.size() - 1));
  if (!unit || !count) return std::nullopt;
  // 99999999 hours exceed 64 bits of nanoseconds.
  const std::int64_t most = Duration::max().count() / *unit;
  return Duration(std::min(static_cast<std::int64_t>(*count), most) * *unit);
}

std::string grpc_timeout(Duration patience) {
  const auto ms =
      std::clamp(ceil<milliseconds>(patience), milliseconds(1), milliseconds(99'999'999));
  return std::to_string(ms.count()) + "m";
}

Result<void> GrpcMessageReader::read(std::string_view bytes, std::vector<std::string>& messages) {
  while (!bytes.empty()) {
    if (prefix_.size() < kPrefixBytes) {
      const std::size_t taken = std::min(kPrefixBytes - prefix_.size(), bytes.size());
      prefix_.append(bytes.substr(0, taken));
      bytes.remove_prefix(taken);
      if (prefix_.size() < kPrefixBytes) return {};
      length_ = length_of(prefix_);
      if (prefix_[0] != 0) {
        return Error{EPROTO, "the message is compressed, which is not supported"};
      }
      if (length_ > max_message_) {
        return Error{EMSGSIZE, "a message of " + std::to_string(length_) + " bytes, the limit is " +
                                   std::to_string(max_message_)};
      }
    }
    const std::size_t taken = std::min(length_ - message_.size(), bytes.size());
    message_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (message_.size() < length_) return {};
    messages.push_back(std::exchange(message_, {}));
    prefix_.clear();
  }
  return {};
}

}  // namespace forestall::wire
