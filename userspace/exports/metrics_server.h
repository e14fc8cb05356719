// SPDX-License-Identifier: Apache-2.0
// A small HTTP server for metrics scrapers: GET /metrics, and GET /healthz and /readyz, which
// return 200 while the loop evaluates in time, and 503 otherwise and before the first evaluation.
// The caller adds other pages.
//
// It is one thread of ordinary priority with all signals blocked, which sleeps until a client
// connects. On a node that is short of CPU, scrapes are late and evictions are not. Clients can
// hold at most kConnectionsMax descriptors and kAnswersMax answers for kPatience, because the kill
// ladder needs descriptors and memory too. A further client replaces one of the address that has
// most connections, its own included. So neither idle clients nor pods that connect all the time
// displace a probe of another address, if they have fewer than kConnectionsMax addresses; and with
// more, a probe has the time of so many connections for its request. How often they connect is
// limited as well (ConnectionRate). A listener on a loopback address refuses requests that name
// another host. None of Debian's libraries has such limits: civetweb needs a thread per connection
// and two seconds to stop, libmicrohttpd makes the agent lock all of GnuTLS in memory, and
// libevent's server accepts any number of connections.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "exports/connection_rate.h"
#include "exports/http_exchange.h"
#include "exports/metrics.h"

namespace forestall::exports {

// The format of Prometheus servers (exposition format 0.0.4).
inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

class MetricsServer {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(2);
  static constexpr std::size_t kConnectionsMax = 128;
  // Of these with an answer, sent or not. Each TLS connection counts, because its state is memory.
  static constexpr std::size_t kAnswersMax = 16;

  // Listens at `address`, an IP address and a port: "127.0.0.1:9464" or "[::1]:9464"; port 0
  // selects a free port. `metrics` must outlive the server. Errors name the address and the cause,
  // such as EADDRINUSE. `more` serves further pages (the server's own paths take precedence); null:
  // none. The server's thread calls it.
  static Result<std::unique_ptr<MetricsServer>> start(const std::string& address,
                                                      const Metrics& metrics,
                                                      HttpPages more = nullptr);
  // With these pages only. `transports`: called by the server's thread; null: none, plain HTTP.
  static Result<std::unique_ptr<MetricsServer>> start(const std::string& address, HttpPages pages,
                                                      HttpTransports transports = nullptr);
  MetricsServer(const MetricsServer&) = delete;
  // Ends the thread without waiting for clients.
  ~MetricsServer();

  [[nodiscard]] std::uint16_t port() const;

 private:
  MetricsServer(UniqueFd listening, UniqueFd stop, HttpPages pages, HttpTransports transports);
  void serve();
  struct Client {
    HttpExchange exchange;
    std::string address;  // without the port
  };

  [[nodiscard]] bool wait(MonotonicTime now);  // false: the server ends
  void accept_all(MonotonicTime now);
  [[nodiscard]] std::size_t room() const { return transports_ ? kAnswersMax : kConnectionsMax; }
  // Makes room for a client of this address. REQUIRES: there is one to drop.
  void drop_one(std::string_view newcomer);
  void limit_answers(MonotonicTime now);

  const UniqueFd listening_;
  const UniqueFd stop_;
  const HttpPages pages_;
  const HttpTransports transports_;
  // The thread's.
  std::vector<Client> clients_;     // in the order of their connections
  std::vector<std::size_t> ready_;  // indices into them, ascending
  bool client_waits_ = false;       // for accept()
  ConnectionRate rate_;
  std::optional<MonotonicTime> deaf_until_;  // accept() failed; no retry before this time
  std::thread thread_;                       // last, because it uses the members above
};

}  // namespace forestall::exports
