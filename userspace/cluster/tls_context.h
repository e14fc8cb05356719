// SPDX-License-Identifier: Apache-2.0
// OpenSSL's contexts of a server: certificates, versions and cipher suites by the options of the
// descheduler, which are those of Go.
#pragma once

#include <openssl/ssl.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace forestall::cluster {

struct TlsOptions {
  std::string certificate = {};  // PEM file, with the chain; empty: one that signs itself is made
  std::string key = {};          // PEM file
  // "VersionTLS10" to "VersionTLS13"; below TLS 1.2, also if empty: 1.2.
  std::string min_version = {};
  std::string cipher_suites = {};     // by the names of IANA or Go, with commas; empty: default
  std::vector<std::string> sni = {};  // "CERTIFICATE,KEY" or "CERTIFICATE,KEY:NAME,NAME"
};

// A certificate for the clients that request one of its names.
struct NamedCertificate {
  std::string certificate;              // PEM file, with the chain
  std::string key;                      // PEM file
  std::vector<std::string> names = {};  // "*.example.org"; empty: those in the certificate

  friend bool operator==(const NamedCertificate&, const NamedCertificate&) = default;
};

// Errors: not in the form of --tls-sni-cert-key.
[[nodiscard]] Result<NamedCertificate> parse_named_certificate(std::string_view text);

// All certificates of one server. Not changed once it is made: a connection keeps it.
class TlsContexts {
 public:
  // Errors: a file cannot be read or does not belong to the other one; an option is unknown.
  static Result<std::shared_ptr<const TlsContexts>> create(const TlsOptions& options);
  // The same checks, without making a certificate that signs itself.
  [[nodiscard]] static Result<void> check(const TlsOptions& options);

  [[nodiscard]] SSL_CTX& first() const { return *contexts_.front(); }
  // Null: first().
  [[nodiscard]] SSL_CTX* named(std::string_view server_name) const;

 private:
  struct FreeContext {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  using Context = std::unique_ptr<SSL_CTX, FreeContext>;

  [[nodiscard]] static Result<Context> make_context(const TlsOptions& options);
  [[nodiscard]] Result<void> add_files(const TlsOptions& options);

  std::vector<Context> contexts_;
  std::map<std::string, SSL_CTX*, std::less<>> names_;
};

}  // namespace forestall::cluster
