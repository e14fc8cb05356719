// SPDX-License-Identifier: Apache-2.0
// A gRPC server at a unix socket: connections, bytes, time. One thread of ordinary priority with
// all signals blocked, which sleeps until somebody asks or the service has news: a node that is
// short of CPU answers late, and evicts in time.
//
// Limits, each here or in GrpcLimits: how many may connect, how long one may be silent, how long
// one may leave what it was sent. A connection whose socket is full is not read from either, so
// that nobody can make us pile up answers.
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
#include "exports/grpc_counts.h"
#include "exports/grpc_session.h"
#include "exports/local_socket.h"

namespace forestall::exports {

class GrpcServer {
 public:
  static constexpr std::size_t kConnectionsMax = 16;
  // Of those who are let in but own nothing here: they cannot keep root from asking.
  static constexpr std::size_t kGuestConnectionsMax = 12;

  // Serves at `path` for root, the agent's own user and `users`. `service` and `counts` outlive the
  // server. Errors are LocalSocket::listen()'s.
  static Result<std::unique_ptr<GrpcServer>> start(const std::string& path, const LocalUsers& users,
                                                   GrpcService& service, GrpcCounts& counts,
                                                   const GrpcLimits& limits = GrpcLimits());
  GrpcServer(const GrpcServer&) = delete;
  // Ends the thread without waiting for any client.
  ~GrpcServer();

 private:
  struct Connection;

  GrpcServer(LocalSocket listening, UniqueFd stop, GrpcService& service, GrpcCounts& counts,
             const GrpcLimits& limits);
  void serve();
  [[nodiscard]] bool wait();  // false: it is to end
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
  bool client_waits_ = false;  // for accept
  bool news_ = false;
  std::optional<MonotonicTime> deaf_until_;  // accept was refused: not tried before
  std::thread thread_;                       // last: it uses all of the above
};

}  // namespace forestall::exports
