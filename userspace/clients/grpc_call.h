// SPDX-License-Identifier: Apache-2.0
// One unary gRPC call over a unix socket, on nghttp2 (HTTP/2 framing alone) instead of grpc++.
//
// The agent makes all code it has mapped resident and locks it, and its size is a target.
// Measured on Debian 12: libgrpc++ with what it needs (OpenSSL, abseil, re2) is 15.6 MB of that,
// libnghttp2 0.19 MB. A call over plain HTTP/2 on a local socket needs none of the rest. It also
// brings no threads of its own, and a call can be called off from outside at once.
//
// What such a call is: POST /package.Service/Method with one length-prefixed message, answered by
// one such message and trailers with grpc-status.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "clients/grpc_reply.h"

namespace forestall::clients {

struct GrpcTarget {
  std::string socket;  // absolute path of a unix socket
  std::size_t max_reply_bytes = std::size_t{16} << 20;
  int cancel_fd = -1;  // readable: give up; -1: nothing does
};

// Calls `method` ("/runtime.v1.RuntimeService/Version") and waits for the answer, for `patience` in
// all; the server is told how long, too. Connecting may wait for a server with a full backlog, for
// as long, and only that cannot be called off.
// Failures of our own have an errno in `code`: that of connect, ETIMEDOUT, ECANCELED, EMSGSIZE,
// EPROTO, ECONNRESET.
[[nodiscard]] GrpcReply grpc_call(const GrpcTarget& target, std::string_view method,
                                  std::string_view message, Duration patience);

}  // namespace forestall::clients
