// SPDX-License-Identifier: Apache-2.0
// TLS for the pages of a rebalancer: with the certificate of two files, which are read again when
// they change, or with one that signs itself, as the descheduler's.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "exports/http_exchange.h"

namespace forestall::cluster {

struct TlsOptions {
  std::string certificate = {};    // PEM file, with the chain; empty: one that signs itself is made
  std::string key = {};            // PEM file
  std::string min_version = {};    // "VersionTLS12" (also if empty) or "VersionTLS13"
  std::string cipher_suites = {};  // of TLS 1.2, by IANA's names, with commas; empty: default
};

class TlsPages {
 public:
  // Changed files count for connections that begin so long after the last check.
  static constexpr Duration kCheckInterval = std::chrono::minutes(1);

  // Errors: the files cannot be read or do not belong together; an option is unknown.
  static Result<std::shared_ptr<TlsPages>> create(TlsOptions options);
  TlsPages(const TlsPages&) = delete;
  TlsPages& operator=(const TlsPages&) = delete;
  ~TlsPages();

  // Of a connection that was accepted. Null: no memory. Thread rule: one thread.
  [[nodiscard]] std::unique_ptr<exports::HttpTransport> transport(int fd, MonotonicTime now);

 private:
  struct Parts;

  TlsPages(TlsOptions options, std::unique_ptr<Parts> parts);
  void reload(MonotonicTime now);

  const TlsOptions options_;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace forestall::cluster
