// SPDX-License-Identifier: Apache-2.0
#include "wire/grpc_server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/blocked_signals.h"
#include "base/start_thread.h"

namespace forestall::wire {
namespace {

constexpr std::size_t kChunkBytes = 16 * 1024;
// Sends per turn: a connection with unlimited output must not starve the others.
constexpr int kSendsAtOnce = 16;
// Accepts per turn: with a socket that is open to all users, refused clients could reconnect
// endlessly and starve the others.
constexpr int kAcceptsAtOnce = 16;
constexpr Duration kDeaf = std::chrono::seconds(2);

int milliseconds_until(std::optional<MonotonicTime> due, MonotonicTime now) {
  if (!due) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

bool would_wait() {
  return errno == EAGAIN || errno == EINTR;
}

}  // namespace

struct GrpcServer::Connection {
  Connection(UniqueFd socket, const GrpcPeer& peer, GrpcService& service, const GrpcLimits& limits,
             MonotonicTime now)
      : fd(std::move(socket)),
        is_owners(peer.is_owner),
        session(service, limits, peer),
        active_at(now) {}

  UniqueFd fd;
  const bool is_owners;
  GrpcSession session;
  std::string unsent;       // what the socket did not take
  bool more = false;        // the session may have more output; the turn ended before it
  bool dead = false;        // to be closed
  short happened = 0;       // events of the last poll()
  MonotonicTime active_at;  // last transfer in either direction
  GrpcTally reported;       // the part of its tally that is already counted

  [[nodiscard]] short events() const { return unsent.empty() && !more ? POLLIN : POLLOUT; }
};

Result<std::unique_ptr<GrpcServer>> GrpcServer::start(const std::string& path,
                                                      const LocalUsers& users, GrpcService& service,
                                                      GrpcCounts& counts,
                                                      const GrpcLimits& limits) {
  LocalSocket listening = TRY(LocalSocket::listen(path, users));
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop) return errno_error("eventfd", "for the gRPC server");
  std::unique_ptr<GrpcServer> server(
      new GrpcServer(std::move(listening), std::move(stop), service, counts, limits));
  const base::BlockedSignals blocked;
  server->thread_ = TRY(start_thread("forestall-grpc", [made = server.get()] { made->serve(); }));
  pthread_setname_np(server->thread_.native_handle(), "forestall-grpc");
  return server;
}

GrpcServer::GrpcServer(LocalSocket listening, UniqueFd stop, GrpcService& service,
                       GrpcCounts& counts, const GrpcLimits& limits)
    : listening_(std::move(listening)),
      stop_(std::move(stop)),
      service_(service),
      counts_(counts),
      limits_(limits) {}

GrpcServer::~GrpcServer() {
  eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

void GrpcServer::serve() {
  while (wait()) {
    now_ = SystemClock().now();
    if (news_) {
      service_.take_news();
      for (const auto& each : connections_) each->session.resume(now_);
    }
    for (const auto& each : connections_) {
      expire(*each);
      advance(*each);
    }
    std::erase_if(connections_, [](const auto& each) { return each->dead; });
    if (client_waits_) accept_all();
  }
}

// The earliest time at which one of the connection's limits expires.
MonotonicTime GrpcServer::due_of(const Connection& connection) const {
  const bool stuck = !connection.unsent.empty();
  const bool idle = connection.session.calls() == 0;
  MonotonicTime due = MonotonicTime::max();
  if (stuck) due = connection.active_at + limits_.patience;
  if (idle) due = std::min(due, connection.active_at + limits_.idle);
  return std::min(due, connection.session.due().value_or(MonotonicTime::max()));
}

bool GrpcServer::wait() {
  const MonotonicTime now = SystemClock().now();
  if (deaf_until_ && *deaf_until_ <= now) deaf_until_.reset();
  std::optional<MonotonicTime> due = deaf_until_;
  std::vector<pollfd> polled;
  for (const auto& each : connections_) {
    polled.push_back({each->fd.get(), each->events(), 0});
    const MonotonicTime at = due_of(*each);
    if (at != MonotonicTime::max()) due = due ? std::min(*due, at) : at;
  }
  const bool full = connections_.size() == kConnectionsMax;
  polled.push_back({full || deaf_until_ ? -1 : listening_.fd(), POLLIN, 0});
  polled.push_back({service_.news_fd(), POLLIN, 0});
  polled.push_back({stop_.get(), POLLIN, 0});
  const int happened = poll(polled.data(), polled.size(), milliseconds_until(due, now));
  if (happened < 0) {
    // After a failed poll(), revents are undefined.
    for (pollfd& each : polled) each.revents = 0;
    if (errno != EINTR) return false;
  }
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    connections_[i]->happened = polled[i].revents;
  }
  const std::size_t rest = connections_.size();
  client_waits_ = polled[rest].revents != 0;
  news_ = polled[rest + 1].revents != 0;
  return polled[rest + 2].revents == 0;
}

bool GrpcServer::has_room_for_guest() const {
  const auto guests =
      std::ranges::count_if(connections_, [](const auto& each) { return !each->is_owners; });
  return static_cast<std::size_t>(guests) < kGuestConnectionsMax;
}

void GrpcServer::accept_all() {
  for (int i = 0; i < kAcceptsAtOnce && connections_.size() < kConnectionsMax; ++i) {
    UniqueFd client(accept4(listening_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client) {
      // Without descriptors or memory the client stays in the backlog. An immediate retry would use
      // the CPU that other threads need to free them.
      if (!would_wait() && errno != ECONNABORTED) deaf_until_ = now_ + kDeaf;
      return;
    }
    const GrpcPeer peer{LocalSocket::is_owners(client.get()), LocalSocket::user_of(client.get())};
    if (!listening_.admits(client.get()) || (!peer.is_owner && !has_room_for_guest())) {
      ++counts_.refused;
      continue;
    }
    ++counts_.connections;
    connections_.push_back(
        std::make_unique<Connection>(std::move(client), peer, service_, limits_, now_));
    // Sends the session's SETTINGS.
    advance(*connections_.back());
  }
}

// Sends first: the server does not read from a client that leaves its output unread.
void GrpcServer::advance(Connection& connection) {
  connection.dead = connection.dead || !send(connection);
  if (!connection.dead && connection.unsent.empty() && !connection.more &&
      (connection.happened & (POLLIN | POLLHUP | POLLERR)) != 0) {
    std::array<char, kChunkBytes> bytes;
    const ssize_t size = recv(connection.fd.get(), bytes.data(), bytes.size(), 0);
    if (size > 0) {
      connection.active_at = now_;
      connection.dead =
          !connection.session.receive({bytes.data(), static_cast<std::size_t>(size)}, now_);
      // After a protocol error the client still gets a GOAWAY.
      connection.dead = !send(connection) || connection.dead;
    } else {
      connection.dead = size == 0 || !would_wait();
    }
  }
  connection.happened = 0;
}

// Counts before sending: a client whose call has ended can rely on the counter.
void GrpcServer::count(Connection& connection) {
  const GrpcTally& tally = connection.session.tally();
  counts_.calls += tally.calls - std::exchange(connection.reported.calls, tally.calls);
  counts_.slow_readers +=
      tally.slow_readers - std::exchange(connection.reported.slow_readers, tally.slow_readers);
}

// False: the connection has ended.
bool GrpcServer::send(Connection& connection) {
  connection.more = false;
  count(connection);
  for (int i = 0; i < kSendsAtOnce; ++i) {
    if (connection.unsent.empty()) connection.unsent = connection.session.output(now_);
    if (connection.unsent.empty()) return !connection.session.over();
    const ssize_t sent = ::send(connection.fd.get(), connection.unsent.data(),
                                connection.unsent.size(), MSG_NOSIGNAL);
    if (sent < 0) return would_wait();
    connection.active_at = now_;
    connection.unsent.erase(0, static_cast<std::size_t>(sent));
  }
  connection.more = true;
  return true;
}

void GrpcServer::expire(Connection& connection) {
  if (due_of(connection) > now_) return;
  connection.session.expire(now_);
  count(connection);
  const bool stuck = !connection.unsent.empty() && connection.active_at + limits_.patience <= now_;
  if (stuck) counts_.slow_readers += connection.session.calls_going_on();
  const bool idle = connection.session.calls() == 0 && connection.active_at + limits_.idle <= now_;
  connection.dead = stuck || idle;
}

}  // namespace forestall::wire
