// SPDX-License-Identifier: Apache-2.0
#include "exports/metrics_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/parse.h"
#include "base/start_thread.h"
#include "exports/blocked_signals.h"

namespace forestall::exports {
namespace {

// The format of Prometheus servers (exposition format 0.0.4).
constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";
constexpr const char* kPlainType = "text/plain; charset=utf-8";
constexpr int kBacklog = 16;

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

// Clients cannot connect before listen(), so the mode is always correct.
Result<UniqueFd> listen_locally(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return Error{ENAMETOOLONG, path};
  path.copy(address.sun_path, path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno_error("socket", path);
  unlink(path.c_str());
  // The sockets interface takes every kind of address as a generic one.
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return errno_error("bind", path);
  }
  if (chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0) return errno_error("chmod", path);
  if (listen(fd.get(), kBacklog) != 0) return errno_error("listen", path);
  return fd;
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
  auto listening = listen_at(address);
  if (!listening.ok()) return listening.error().in("metrics at " + address);
  return serve_at(std::move(*listening),
                  [&metrics, more = std::move(more)](const HttpRequest& request) {
                    return page(metrics, more, request);
                  });
}

Result<std::unique_ptr<MetricsServer>> MetricsServer::start_local(const std::string& path,
                                                                  HttpPages pages) {
  return serve_at(TRY(listen_locally(path)), std::move(pages));
}

Result<std::unique_ptr<MetricsServer>> MetricsServer::serve_at(UniqueFd listening,
                                                               HttpPages pages) {
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop) return errno_error("eventfd", "for the HTTP server");
  std::unique_ptr<MetricsServer> server(
      new MetricsServer(std::move(listening), std::move(stop), std::move(pages)));
  const BlockedSignals blocked;
  server->thread_ = TRY(start_thread("forestall-http", [made = server.get()] { made->serve(); }));
  pthread_setname_np(server->thread_.native_handle(), "forestall-http");
  return server;
}

MetricsServer::MetricsServer(UniqueFd listening, UniqueFd stop, HttpPages pages)
    : listening_(std::move(listening)), stop_(std::move(stop)), pages_(std::move(pages)) {}

MetricsServer::~MetricsServer() {
  eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

std::uint16_t MetricsServer::port() const {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  // The sockets interface returns every kind of address as a generic one.
  if (getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_UNIX) return 0;
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
      if (exchanges_[*index].advance(pages_)) continue;
      exchanges_.erase(exchanges_.begin() + static_cast<std::ptrdiff_t>(*index));
    }
    std::erase_if(exchanges_, [&](const HttpExchange& each) { return each.deadline() <= now; });
    if (client_waits_) accept_all(now);
  }
}

bool MetricsServer::wait(MonotonicTime now) {
  if (deaf_until_ && *deaf_until_ <= now) deaf_until_.reset();
  std::optional<MonotonicTime> due = deaf_until_;
  std::vector<pollfd> polled;
  for (const HttpExchange& each : exchanges_) {
    polled.push_back({each.fd(), each.events(), 0});
    due = due ? std::min(*due, each.deadline()) : each.deadline();
  }
  const bool full = exchanges_.size() == kConnectionsMax;
  polled.push_back({full || deaf_until_ ? -1 : listening_.get(), POLLIN, 0});
  polled.push_back({stop_.get(), POLLIN, 0});
  const int happened = poll(polled.data(), polled.size(), milliseconds_until(due, now));
  ready_.clear();
  client_waits_ = false;
  if (happened < 0) return errno == EINTR;
  for (std::size_t i = 0; i < exchanges_.size(); ++i) {
    if (polled[i].revents != 0) ready_.push_back(i);
  }
  client_waits_ = polled[exchanges_.size()].revents != 0;
  return polled.back().revents == 0;
}

void MetricsServer::accept_all(MonotonicTime now) {
  while (exchanges_.size() < kConnectionsMax) {
    UniqueFd client(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (client) {
      exchanges_.emplace_back(std::move(client), now + kPatience);
      continue;
    }
    // Without descriptors or memory the client stays in the backlog. An immediate retry would use
    // the CPU that other threads need to free them.
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) deaf_until_ = now + kPatience;
    return;
  }
}

}  // namespace forestall::exports
