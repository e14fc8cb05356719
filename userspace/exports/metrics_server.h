// SPDX-License-Identifier: Apache-2.0
// A small HTTP server for whoever collects metrics: GET /metrics, and GET /healthz and /readyz,
// which are 200 while the loop looks when it said it would, and 503 else, before its first look
// too. What else is served beside them is the caller's.
//
// One thread of ordinary priority with all signals blocked, which sleeps until somebody connects: a
// node that is short of CPU is scraped late, and evicts in time. Whoever connects can make it hold
// kConnectionsMax descriptors for kPatience, no more: the kill ladder needs descriptors, too. No
// library of Debian's keeps to that: civetweb gives each connection a thread to block and takes two
// seconds to stop, libmicrohttpd has the agent lock all of GnuTLS in memory, and libevent's server
// takes any number of connections.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "exports/http_exchange.h"
#include "exports/metrics.h"

namespace forestall::exports {

class MetricsServer {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(2);
  static constexpr std::size_t kConnectionsMax = 16;

  // Listens at `address`, an IP address and a port: "127.0.0.1:9464" or "[::1]:9464"; port 0 takes
  // any that is free. `metrics` must outlive the server. An error names the address and says why,
  // EADDRINUSE for one.
  // `more` has what is served beside (exports' own paths come first); null: nothing. It is called
  // by the server's thread.
  static Result<std::unique_ptr<MetricsServer>> start(const std::string& address,
                                                      const Metrics& metrics,
                                                      HttpPages more = nullptr);
  // Listens at a socket in the file system, which only its owner may connect to (mode 0600). What
  // is there already goes: whoever starts this holds the lock that keeps another agent away.
  static Result<std::unique_ptr<MetricsServer>> start_local(const std::string& path,
                                                            HttpPages pages);
  MetricsServer(const MetricsServer&) = delete;
  // Ends the thread without waiting for any client.
  ~MetricsServer();

  // 0 for a local one.
  [[nodiscard]] std::uint16_t port() const;

 private:
  MetricsServer(UniqueFd listening, UniqueFd stop, HttpPages pages);
  static Result<std::unique_ptr<MetricsServer>> serve_at(UniqueFd listening, HttpPages pages);
  void serve();
  [[nodiscard]] bool wait(MonotonicTime now);  // false: it is to end
  void accept_all(MonotonicTime now);

  const UniqueFd listening_;
  const UniqueFd stop_;
  const HttpPages pages_;
  // The thread's.
  std::vector<HttpExchange> exchanges_;
  std::vector<std::size_t> ready_;           // indices into them, ascending
  bool client_waits_ = false;                // for accept
  std::optional<MonotonicTime> deaf_until_;  // accept was refused: not tried before
  std::thread thread_;                       // last: it uses all of the above
};

}  // namespace forestall::exports
