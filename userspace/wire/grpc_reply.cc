// SPDX-License-Identifier: Apache-2.0
#include "wire/grpc_reply.h"

#include <cerrno>
#include <iterator>
#include <utility>

namespace forestall::wire {
namespace {

// Longer error texts are truncated, because they end in a log line.
constexpr std::size_t kMessageBytes = 1024;

// gRPC's status for a stream that was reset without a status.
GrpcStatus status_of_reset(std::uint32_t error_code) {
  switch (error_code) {
    case 0x7: return GrpcStatus::unavailable;         // REFUSED_STREAM
    case 0x8: return GrpcStatus::cancelled;           // CANCEL
    case 0xb: return GrpcStatus::resource_exhausted;  // ENHANCE_YOUR_CALM
    case 0xc: return GrpcStatus::permission_denied;   // INADEQUATE_SECURITY
    default: return GrpcStatus::internal;
  }
}

GrpcReply refusal(const Error& why) {
  return {GrpcStatus::internal, why.code, why.message, ""};
}

}  // namespace

void GrpcEnding::header(std::string_view name, std::string_view value) {
  // Trailers follow headers: the last value counts.
  if (name == ":status") http_status_ = value;
  if (name == "grpc-status") grpc_status_ = value;
  if (name == "grpc-message") grpc_message_ = percent_decode(value.substr(0, kMessageBytes));
}

GrpcReply GrpcEnding::without_status(std::uint32_t error_code) const {
  if (error_code != 0) {
    return {status_of_reset(error_code), 0,
            "the server reset the call (HTTP/2 error " + std::to_string(error_code) + ")", ""};
  }
  return {GrpcStatus::internal, EPROTO,
          "not gRPC: the answer has no grpc-status, its HTTP status is " +
              (http_status_.empty() ? "missing" : http_status_),
          ""};
}

GrpcReply GrpcEnding::finish(std::uint32_t error_code) const {
  if (!grpc_status_) return without_status(error_code);
  const GrpcStatus status = parse_grpc_status(*grpc_status_);
  return {status, 0, status == GrpcStatus::ok ? "" : grpc_message_, ""};
}

void GrpcReplyReader::header(std::string_view name, std::string_view value) {
  ending_.header(name, value);
}

bool GrpcReplyReader::data(std::string_view bytes) {
  if (refusal_) return false;
  if (auto read = messages_.read(bytes, read_); !read) refusal_ = refusal(read.error());
  if (read_.size() > 1 || (!read_.empty() && !messages_.between_messages())) {
    refusal_ = refusal(Error{EPROTO, "more than one message in the answer"});
  }
  return !refusal_;
}

GrpcReply GrpcReplyReader::finish(std::uint32_t error_code) && {
  if (refusal_) return *std::move(refusal_);
  GrpcReply reply = ending_.finish(error_code);
  if (!reply.ok()) return reply;
  if (read_.empty()) return {GrpcStatus::internal, EPROTO, "the answer is truncated", ""};
  reply.body = std::move(read_.front());
  return reply;
}

void GrpcStreamReader::header(std::string_view name, std::string_view value) {
  ending_.header(name, value);
}

bool GrpcStreamReader::data(std::string_view bytes) {
  if (refusal_) return false;
  std::vector<std::string> whole;
  if (auto read = messages_.read(bytes, whole); !read) refusal_ = refusal(read.error());
  std::move(whole.begin(), whole.end(), std::back_inserter(read_));
  return !refusal_;
}

std::optional<std::string> GrpcStreamReader::next() {
  if (read_.empty()) return std::nullopt;
  std::string message = std::move(read_.front());
  read_.pop_front();
  return message;
}

GrpcReply GrpcStreamReader::finish(std::uint32_t error_code) const {
  if (refusal_) return *refusal_;
  GrpcReply reply = ending_.finish(error_code);
  if (reply.ok() && !messages_.between_messages()) {
    return {GrpcStatus::internal, EPROTO, "the last message is truncated", ""};
  }
  return reply;
}

}  // namespace forestall::wire
