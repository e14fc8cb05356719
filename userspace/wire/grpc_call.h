// SPDX-License-Identifier: Apache-2.0
// One unary gRPC call over a unix socket, on nghttp2 (HTTP/2 framing only) instead of grpc++.
//
// The agent locks all mapped code in memory, and its size is a target. Measured on Debian 12:
// libgrpc++ with its dependencies (OpenSSL, abseil, re2) maps 15.6 MB, libnghttp2 0.19 MB. A call
// over plain HTTP/2 on a local socket needs none of them. This client also creates no threads, and
// a call can be cancelled at once from outside.
//
// A call is POST /package.Service/Method with one length-prefixed message; the answer is one such
// message and trailers with grpc-status.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "wire/grpc_reply.h"

namespace forestall::wire {

struct GrpcTarget {
  std::string socket;  // absolute path of a unix socket
  std::size_t max_reply_bytes = std::size_t{16} << 20;
  int cancel_fd = -1;  // readable: cancel the call; -1: never cancelled
};

// Calls `method` ("/runtime.v1.RuntimeService/Version") and waits for the answer, at most
// `patience` in total; the server gets that deadline too. If the server's backlog is full,
// connecting also waits, and only that wait cannot be cancelled. Failures of this client have an
// errno in `code`: that of connect, ETIMEDOUT, ECANCELED, EMSGSIZE, EPROTO, ECONNRESET.
[[nodiscard]] GrpcReply grpc_call(const GrpcTarget& target, std::string_view method,
                                  std::string_view message, Duration patience);

}  // namespace forestall::wire
