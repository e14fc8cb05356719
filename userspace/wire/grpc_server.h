// SPDX-License-Identifier: Apache-2.0
// A gRPC server on a unix socket: connections, bytes, timeouts. It is one thread of ordinary
// priority with all signals blocked, which sleeps until a client sends or the service has news. On
// a node that is short of CPU, answers are late and evictions are not.
//
// Limits, here or in GrpcLimits: the number of connections, how long a connection may be idle, and
// how long a client may leave its answers unread. The server does not read from a connection whose
// socket is full, so that a client cannot make answers accumulate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "wire/grpc_counts.h"
#include "wire/grpc_session.h"
#include "wire/local_socket.h"

namespace forestall::wire {

class GrpcServer {
 public:
  static constexpr std::size_t kConnectionsMax = 16;
  // For peers other than root and the agent's user, so that these cannot be kept from connecting.
  static constexpr std::size_t kGuestConnectionsMax = 12;

  // Serves at `path` for root, the agent's own user and `users`. `service` and `counts` outlive the
  // server. Errors are those of LocalSocket::listen().
  static Result<std::unique_ptr<GrpcServer>> start(const std::string& path, const LocalUsers& users,
                                                   GrpcService& service, GrpcCounts& counts,
                                                   const GrpcLimits& limits = GrpcLimits());
  GrpcServer(const GrpcServer&) = delete;
  // Ends the thread without waiting for clients.
  ~GrpcServer();

 private:
  struct Connection;

  GrpcServer(LocalSocket listening, UniqueFd stop, GrpcService& service, GrpcCounts& counts,
             const GrpcLimits& limits);
  void serve();
  [[nodiscard]] bool wait();  // false: the server ends
  [[nodiscard]] bool has_room_for_guest() const;
  void accept_all();
  void advance(Connection& connection);
  void count(Connection& connection);
  [[nodiscard]] bool send(Connection& connection);
  void expire(Connection& connection);
  [[nodiscard]] MonotonicTime due_of(const Connection& connection) const;

  const LocalSocket listening_;
  const UniqueFd stop_;
  GrpcService& service_;
  GrpcCounts& counts_;
  const GrpcLimits limits_;
  // The thread's.
  std::vector<std::unique_ptr<Connection>> connections_;
  MonotonicTime now_;
  bool client_waits_ = false;  // for accept()
  bool news_ = false;
  std::optional<MonotonicTime> deaf_until_;  // accept() failed; no retry before this time
  std::thread thread_;                       // last, because it uses the members above
};

}  // namespace forestall::wire
