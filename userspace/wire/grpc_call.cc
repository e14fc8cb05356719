// SPDX-License-Identifier: Apache-2.0
#include "wire/grpc_call.h"

#include <poll.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <optional>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"
#include "wire/grpc_exchange.h"

namespace forestall::wire {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;

GrpcReply failed(GrpcStatus status, int code, std::string message) {
  return {status, code, std::move(message), ""};
}

GrpcReply timed_out(Duration patience) {
  return failed(
      GrpcStatus::deadline_exceeded, ETIMEDOUT,
      "no answer within " + std::to_string(duration_cast<milliseconds>(patience).count()) + " ms");
}

// Waits for the socket, at most `left`. Nothing: the exchange can continue.
std::optional<GrpcReply> await_peer(int socket, short events, int cancel_fd, Duration left) {
  const auto whole = duration_cast<seconds>(left);
  const timespec patience{whole.count(), (left - whole).count()};
  std::array<pollfd, 2> fds{{{socket, events, 0}, {cancel_fd, POLLIN, 0}}};
  if (::ppoll(fds.data(), fds.size(), &patience, nullptr) < 0 && errno != EINTR) {
    return failed(GrpcStatus::internal, errno, "poll");
  }
  if (fds[1].revents != 0) return failed(GrpcStatus::cancelled, ECANCELED, "cancelled");
  return std::nullopt;
}

// Runs the exchange to its end.
GrpcReply converse(GrpcExchange& exchange, GrpcReplyReader& reader, int cancel_fd,
                   MonotonicTime until, Duration patience) {
  for (;;) {
    exchange.send();
    if (const auto ended = exchange.ended()) return std::move(reader).finish(*ended);
    if (exchange.broken()) {
      return failed(GrpcStatus::internal, EPROTO, "not HTTP/2: the server violated the protocol");
    }
    const Duration left = until - SystemClock().now();
    if (left <= Duration::zero()) return timed_out(patience);
    if (auto over = await_peer(exchange.fd(), exchange.events(), cancel_fd, left)) {
      return *std::move(over);
    }
    if (auto broken = exchange.receive()) {
      const auto ended = exchange.ended();
      return ended ? std::move(reader).finish(*ended) : *std::move(broken);
    }
  }
}

}  // namespace

GrpcReply grpc_call(const GrpcTarget& target, std::string_view method, std::string_view message,
                    Duration patience) {
  const MonotonicTime until = SystemClock().now() + patience;
  pollfd cancelled{target.cancel_fd, POLLIN, 0};
  if (::poll(&cancelled, 1, 0) > 0) return failed(GrpcStatus::cancelled, ECANCELED, "cancelled");
  auto socket = connect_to(target.socket, patience);
  if (!socket) {
    const auto status =
        socket.error().code == ETIMEDOUT ? GrpcStatus::deadline_exceeded : GrpcStatus::unavailable;
    return failed(status, socket.error().code, socket.error().message);
  }
  GrpcReplyReader reader(target.max_reply_bytes);
  GrpcExchange exchange(std::move(*socket), reader);
  if (auto begun = exchange.begin(method, message, patience); !begun) {
    return failed(GrpcStatus::internal, EPROTO, begun.error().message);
  }
  return converse(exchange, reader, target.cancel_fd, until, patience);
}

}  // namespace forestall::wire
