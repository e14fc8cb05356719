// SPDX-License-Identifier: Apache-2.0
// TLS for the pages of a rebalancer: with certificates of files, which are read again when they
// change, or with one that signs itself, as the descheduler's.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "cluster/tls_context.h"
#include "exports/http_exchange.h"

namespace forestall::cluster {

class TlsPages {
 public:
  // Changed files count for connections that begin so long after the last check.
  static constexpr Duration kCheckInterval = std::chrono::minutes(1);
  // Why changed files cannot be used, while the former ones stay in force; empty: they can again.
  // Called when that changes.
  using Report = std::function<void(const std::string& problem)>;

  // Errors: as TlsContexts. `report`: called by transport(); null: not.
  static Result<std::shared_ptr<TlsPages>> create(TlsOptions options, Report report = nullptr);
  TlsPages(const TlsPages&) = delete;
  TlsPages& operator=(const TlsPages&) = delete;
  ~TlsPages();

  // Of a connection that was accepted. Null: no memory. Thread rule: one thread.
  [[nodiscard]] std::unique_ptr<exports::HttpTransport> transport(int fd, MonotonicTime now);

 private:
  struct Parts;

  TlsPages(TlsOptions options, Report report, std::unique_ptr<Parts> parts);
  void reload(MonotonicTime now);

  const TlsOptions options_;
  const Report report_;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace forestall::cluster
