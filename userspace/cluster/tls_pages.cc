// SPDX-License-Identifier: Apache-2.0
#include "cluster/tls_pages.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/parse.h"

namespace forestall::cluster {
namespace {

template <auto kFree>
struct Free {
  void operator()(auto* each) const { kFree(each); }
};
using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using Connection = std::unique_ptr<SSL, Free<SSL_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>>;

// OpenSSL's last error; its queue is empty afterwards.
Error tls_error(const std::string& what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_peek_last_error(), text.data(), text.size());
  ERR_clear_error();
  return error(what + ": " + text.data());
}

Result<int> version_of(std::string_view name) {
  if (name.empty() || name == "VersionTLS12") return TLS1_2_VERSION;
  if (name == "VersionTLS13") return TLS1_3_VERSION;
  return error("--tls-min-version: expected VersionTLS12 or VersionTLS13, found '" +
               std::string(name) + "'");
}

// OpenSSL's names of the cipher suites.
Result<std::string> ciphers_of(SSL_CTX& context, std::string_view names) {
  const STACK_OF(SSL_CIPHER)* const known = SSL_CTX_get_ciphers(&context);
  std::string list;
  while (!names.empty()) {
    const std::string name(next_field(names, ','));
    const char* found = nullptr;
    for (int i = 0; i < sk_SSL_CIPHER_num(known) && found == nullptr; ++i) {
      const SSL_CIPHER* const each = sk_SSL_CIPHER_value(known, i);
      const char* const standard = SSL_CIPHER_standard_name(each);
      if (standard != nullptr && name == standard) found = SSL_CIPHER_get_name(each);
    }
    if (found == nullptr) return error("--tls-cipher-suites: no cipher suite '" + name + "'");
    list += (list.empty() ? "" : ":") + std::string(found);
  }
  return list;
}

bool add_extension(X509& certificate, int kind, const char* value) {
  const Extension extension(X509V3_EXT_conf_nid(nullptr, nullptr, kind, value));
  return extension && X509_add_ext(&certificate, extension.get(), -1) == 1;
}

bool set_random_serial(X509& certificate) {
  std::array<unsigned char, 8> bytes{};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) return false;
  std::uint64_t serial = 0;
  for (const unsigned char each : bytes) serial = serial << 8 | each;
  return ASN1_INTEGER_set_uint64(X509_get_serialNumber(&certificate),
                                 serial & std::numeric_limits<std::int64_t>::max()) == 1;
}

// No client can verify it: probes of the kubelet need not, scrapers must be configured so.
Result<void> use_own_certificate(SSL_CTX& context) {
  constexpr long kTenYears = 10L * 365 * 24 * 3600;
  constexpr long kClocksDiffer = -3600;
  constexpr long kVersion3 = 2;
  const PrivateKey key(EVP_EC_gen("P-256"));
  const Certificate made(X509_new());
  if (!key || !made) return tls_error("TLS key");
  X509_NAME* const name = X509_get_subject_name(made.get());
  const auto* const common = reinterpret_cast<const unsigned char*>("forestall-rebalance");
  const bool complete =
      X509_set_version(made.get(), kVersion3) == 1 && set_random_serial(*made) &&
      X509_gmtime_adj(X509_getm_notBefore(made.get()), kClocksDiffer) != nullptr &&
      X509_gmtime_adj(X509_getm_notAfter(made.get()), kTenYears) != nullptr &&
      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, common, -1, -1, 0) == 1 &&
      X509_set_issuer_name(made.get(), name) == 1 && X509_set_pubkey(made.get(), key.get()) == 1 &&
      add_extension(*made, NID_basic_constraints, "critical,CA:FALSE") &&
      add_extension(*made, NID_ext_key_usage, "serverAuth") &&
      add_extension(*made, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1") &&
      X509_sign(made.get(), key.get(), EVP_sha256()) > 0;
  if (!complete) return tls_error("TLS certificate");
  if (SSL_CTX_use_certificate(&context, made.get()) != 1 ||
      SSL_CTX_use_PrivateKey(&context, key.get()) != 1) {
    return tls_error("TLS certificate");
  }
  return {};
}

// OpenSSL would prompt for a passphrase on the terminal.
int no_passphrase(char*, int, int, void*) {
  return 0;
}

Result<void> use_files(SSL_CTX& context, const TlsOptions& options) {
  ERR_clear_error();
  SSL_CTX_set_default_passwd_cb(&context, no_passphrase);
  if (SSL_CTX_use_certificate_chain_file(&context, options.certificate.c_str()) != 1) {
    return tls_error("--tls-cert-file " + options.certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(&context, options.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(&context) != 1) {
    return tls_error("--tls-private-key-file " + options.key);
  }
  return {};
}

Result<Context> context_of(const TlsOptions& options) {
  Context context(SSL_CTX_new(TLS_server_method()));
  if (!context) return tls_error("TLS");
  SSL_CTX_set_min_proto_version(context.get(), TRY(version_of(options.min_version)));
  // One request for each connection: nothing is resumed.
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  // A write is repeated with the rest of the answer, which has not moved.
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (!options.cipher_suites.empty()) {
    const std::string list = TRY(ciphers_of(*context, options.cipher_suites));
    if (SSL_CTX_set_cipher_list(context.get(), list.c_str()) != 1) {
      return tls_error("--tls-cipher-suites");
    }
  }
  if (options.certificate.empty()) {
    TRY(use_own_certificate(*context));
  } else {
    TRY(use_files(*context, options));
  }
  return context;
}

// What changes if a file is written or replaced.
using FileState = std::tuple<dev_t, ino_t, off_t, std::int64_t, std::int64_t>;
FileState file_state_of(const std::string& file) {
  struct stat state {};
  if (file.empty() || ::stat(file.c_str(), &state) != 0) return {};
  return {state.st_dev, state.st_ino, state.st_size, state.st_mtim.tv_sec, state.st_mtim.tv_nsec};
}

class TlsTransport final : public exports::HttpTransport {
 public:
  explicit TlsTransport(Connection connection) : connection_(std::move(connection)) {}

  ssize_t receive(std::span<char> out) override {
    ERR_clear_error();
    std::size_t count = 0;
    const int ok = SSL_read_ex(connection_.get(), out.data(), out.size(), &count);
    return ok == 1 ? done(count) : failed(ok);
  }
  ssize_t send(std::string_view bytes) override {
    ERR_clear_error();
    std::size_t count = 0;
    const int ok = SSL_write_ex(connection_.get(), bytes.data(), bytes.size(), &count);
    return ok == 1 ? done(count) : failed(ok);
  }
  short awaits() const override { return awaits_; }
  bool has_buffered() const override { return SSL_pending(connection_.get()) > 0; }
  void finish() override {
    // If it cannot be sent now, the end of the connection follows anyhow.
    (void)SSL_shutdown(connection_.get());
    ERR_clear_error();
    awaits_ = POLLIN;
  }

 private:
  ssize_t done(std::size_t count) {
    awaits_ = 0;
    return static_cast<ssize_t>(count);
  }
  ssize_t failed(int result) {
    const int why = SSL_get_error(connection_.get(), result);
    ERR_clear_error();
    if (why == SSL_ERROR_ZERO_RETURN) return 0;
    awaits_ = why == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
    errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
    return -1;
  }

  const Connection connection_;
  short awaits_ = 0;
};

}  // namespace

struct TlsPages::Parts {
  Context context;
  FileState certificate;
  FileState key;
  std::optional<MonotonicTime> checked;
};

TlsPages::TlsPages(TlsOptions options, std::unique_ptr<Parts> parts)
    : options_(std::move(options)), parts_(std::move(parts)) {}
TlsPages::~TlsPages() = default;

Result<std::shared_ptr<TlsPages>> TlsPages::create(TlsOptions options) {
  if (options.certificate.empty() != options.key.empty()) {
    return error("--tls-cert-file and --tls-private-key-file need each other");
  }
  auto parts = std::make_unique<Parts>();
  parts->certificate = file_state_of(options.certificate);
  parts->key = file_state_of(options.key);
  parts->context = TRY(context_of(options));
  return std::shared_ptr<TlsPages>(new TlsPages(std::move(options), std::move(parts)));
}

// Files that do not belong together are being replaced: the next check reads them again.
void TlsPages::reload(MonotonicTime now) {
  if (options_.certificate.empty()) return;
  if (parts_->checked && now - *parts_->checked < kCheckInterval) return;
  parts_->checked = now;
  const FileState certificate = file_state_of(options_.certificate);
  const FileState key = file_state_of(options_.key);
  if (certificate == parts_->certificate && key == parts_->key) return;
  auto context = context_of(options_);
  if (!context) return;
  parts_->context = std::move(*context);
  parts_->certificate = certificate;
  parts_->key = key;
}

std::unique_ptr<exports::HttpTransport> TlsPages::transport(int fd, MonotonicTime now) {
  reload(now);
  Connection connection(SSL_new(parts_->context.get()));
  if (!connection || SSL_set_fd(connection.get(), fd) != 1) return nullptr;
  SSL_set_accept_state(connection.get());
  return std::make_unique<TlsTransport>(std::move(connection));
}

}  // namespace forestall::cluster
