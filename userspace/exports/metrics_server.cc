// SPDX-License-Identifier: Apache-2.0
#include "exports/metrics_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/blocked_signals.h"
#include "base/parse.h"
#include "base/start_thread.h"

namespace forestall::exports {
namespace {

// A probe must find room beside clients that connect all the time.
constexpr int kBacklog = 1024;
constexpr std::size_t kAcceptsAtOnce = 16;

struct AddressDeleter {
  void operator()(addrinfo* address) const { freeaddrinfo(address); }
};
using Address = std::unique_ptr<addrinfo, AddressDeleter>;

// Numeric addresses only: the agent must not wait for a name server at start.
Result<Address> read_address(const std::string& text) {
  const auto colon = text.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : parse_u64(text.substr(colon + 1));
  // getaddrinfo() takes a port modulo 65536.
  if (!port || *port > UINT16_MAX) return error("expected an IP address and a port");
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo wanted{};
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), text.c_str() + colon + 1, &wanted, &found);
  if (code != 0) return error(gai_strerror(code));
  return Address(found);
}

Result<UniqueFd> listen_at(const std::string& text) {
  const Address address = TRY(read_address(text));
  UniqueFd fd(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno_error("socket", text);
  // A restarted agent must not wait for the TIME_WAIT of old connections.
  const int yes = 1;
  if (setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0) {
    return errno_error("setsockopt SO_REUSEADDR", text);
  }
  if (bind(fd.get(), address->ai_addr, address->ai_addrlen) != 0) return errno_error("bind", text);
  if (listen(fd.get(), kBacklog) != 0) return errno_error("listen", text);
  return fd;
}

// Whether only clients on this host reach the socket.
bool is_loopback(int listening) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  // The sockets interface returns every kind of address as a generic one.
  if (getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size) != 0) return true;
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

// Of a client, as bytes of its family; empty for other families.
std::string peer_address(const sockaddr_storage& peer) {
  const auto bytes_of = [](const auto& address) {
    return std::string(reinterpret_cast<const char*>(&address), sizeof(address));
  };
  // The sockets interface returns every kind of address as a generic one.
  if (peer.ss_family == AF_INET) {
    return bytes_of(reinterpret_cast<const sockaddr_in&>(peer).sin_addr);
  }
  if (peer.ss_family == AF_INET6) {
    return bytes_of(reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr);
  }
  return "";
}

HttpAnswer page(const Metrics& metrics, const HttpPages& more, const HttpRequest& request) {
  if (request.path == "/metrics") return {200, kMetricsType, metrics.text()};
  if (request.path == "/healthz" || request.path == "/readyz") {
    if (metrics.alive(SystemClock().now())) return {200, kPlainType, "ok\n"};
    return {503, kPlainType, "the evaluation loop is overdue\n"};
  }
  if (more) return more(request);
  return {404, kPlainType, "not found; available: /metrics, /healthz and /readyz\n"};
}

int milliseconds_until(std::optional<MonotonicTime> due, MonotonicTime now) {
  if (!due) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due - now).count();
  return static_cast<int>(std::max<std::int64_t>(left, 0));
}

}  // namespace

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(const std::string& address,
                                                            const Metrics& metrics,
                                                            HttpPages more) {
  return start(address, [&metrics, more = std::move(more)](const HttpRequest& request) {
    return page(metrics, more, request);
  });
}

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(const std::string& address,
                                                            HttpPages given,
                                                            HttpTransports transports) {
  auto listening = listen_at(address);
  if (!listening.ok()) return listening.error().in("metrics at " + address);
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop) return errno_error("eventfd", "for the HTTP server");
  const bool local = is_loopback(listening->get());
  HttpPages pages = [given = std::move(given), local](const HttpRequest& request) {
    if (local && !is_own_name(request.host)) {
      return HttpAnswer{403, kPlainType, "unknown Host: use localhost or an IP address\n"};
    }
    return given(request);
  };
  std::unique_ptr<MetricsServer> server(new MetricsServer(std::move(*listening), std::move(stop),
                                                          std::move(pages), std::move(transports)));
  const base::BlockedSignals blocked;
  server->thread_ = TRY(start_thread("forestall-http", [made = server.get()] { made->serve(); }));
  pthread_setname_np(server->thread_.native_handle(), "forestall-http");
  return server;
}

MetricsServer::MetricsServer(UniqueFd listening, UniqueFd stop, HttpPages pages,
                             HttpTransports transports)
    : listening_(std::move(listening)),
      stop_(std::move(stop)),
      pages_(std::move(pages)),
      transports_(std::move(transports)),
      rate_(listening_.get()) {}

MetricsServer::~MetricsServer() {
  eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

std::uint16_t MetricsServer::port() const {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  // The sockets interface returns every kind of address as a generic one.
  if (getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  const in_port_t port = address.ss_family == AF_INET6
                             ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                             : reinterpret_cast<const sockaddr_in*>(&address)->sin_port;
  return ntohs(port);
}

void MetricsServer::serve() {
  while (wait(SystemClock().now())) {
    const MonotonicTime now = SystemClock().now();
    // Backwards, so that removing one keeps the remaining indices valid.
    for (auto index = ready_.rbegin(); index != ready_.rend(); ++index) {
      if (clients_[*index].exchange.advance(pages_)) {
        limit_answers(now);
      } else {
        clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(*index));
      }
    }
    std::erase_if(clients_, [&](const Client& each) { return each.exchange.deadline() <= now; });
    if (client_waits_) accept_all(now);
    if (rate_.is_full()) rate_.await_memory();
  }
}

bool MetricsServer::wait(MonotonicTime now) {
  if (deaf_until_ && *deaf_until_ <= now) deaf_until_.reset();
  rate_.renew(now);
  std::optional<MonotonicTime> due = deaf_until_;
  if (const auto resumes = rate_.resumes()) due = due ? std::min(*due, *resumes) : *resumes;
  std::vector<pollfd> polled;
  for (const auto& [exchange, address] : clients_) {
    polled.push_back({exchange.fd(), exchange.events(), 0});
    due = due ? std::min(*due, exchange.deadline()) : exchange.deadline();
  }
  const bool accepts = !deaf_until_ && !rate_.is_full();
  polled.push_back({accepts ? listening_.get() : -1, POLLIN, 0});
  polled.push_back({stop_.get(), POLLIN, 0});
  const int happened = poll(polled.data(), polled.size(), milliseconds_until(due, now));
  ready_.clear();
  client_waits_ = false;
  if (happened < 0) return errno == EINTR;
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    if (polled[i].revents != 0) ready_.push_back(i);
  }
  client_waits_ = polled[clients_.size()].revents != 0;
  return polled.back().revents == 0;
}

void MetricsServer::accept_all(MonotonicTime now) {
  // A round is bounded, so that clients that connect all the time do not delay the answers.
  for (std::size_t i = 0; i < kAcceptsAtOnce && !rate_.is_full(); ++i) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    UniqueFd client(accept4(listening_.get(), reinterpret_cast<sockaddr*>(&peer), &size,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (client) {
      const std::string address = peer_address(peer);
      if (!rate_.admit(address, now)) continue;
      auto transport = transports_ ? transports_(client.get()) : nullptr;
      if (transports_ && !transport) continue;
      if (clients_.size() == room()) drop_one(address);
      clients_.push_back(
          {HttpExchange(std::move(client), now + kPatience, std::move(transport)), address});
      // Many requests arrive with the connection: those are answered before others can drop it.
      if (clients_.back().exchange.advance(pages_)) {
        limit_answers(now);
      } else {
        clients_.pop_back();
      }
      continue;
    }
    // Without descriptors or memory the client stays in the backlog. An immediate retry would use
    // the CPU that other threads need to free them.
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) deaf_until_ = now + kPatience;
    return;
  }
}

// Of the address with most connections. Of these an exchange that waits for its client goes first:
// an answer that is being sent continues. Of equal ones the oldest, which is the first.
void MetricsServer::drop_one(std::string_view newcomer) {
  std::map<std::string_view, int> connections{{newcomer, 1}};
  for (const Client& each : clients_) ++connections[each.address];
  clients_.erase(std::ranges::max_element(clients_, {}, [&](const Client& each) {
    return std::pair(connections[each.address], each.exchange.idle());
  }));
}

// By the same rule. The exchange ends with its deadline, because the caller has indices.
void MetricsServer::limit_answers(MonotonicTime now) {
  std::map<std::string_view, int> answers;
  std::size_t all = 0;
  for (const Client& each : clients_) {
    if (each.exchange.awaits_request()) continue;
    ++answers[each.address];
    ++all;
  }
  if (all <= kAnswersMax) return;
  const auto dropped = std::ranges::max_element(clients_, {}, [&](const Client& each) {
    const int count = each.exchange.awaits_request() ? 0 : answers[each.address];
    return std::pair(count, each.exchange.idle());
  });
  dropped->exchange = HttpExchange(UniqueFd(), now);
}

}  // namespace forestall::exports
