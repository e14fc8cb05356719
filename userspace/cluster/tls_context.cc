// SPDX-License-Identifier: Apache-2.0
#include "cluster/tls_context.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "base/parse.h"

namespace forestall::cluster {
namespace {

template <auto kFree>
struct Free {
  void operator()(auto* each) const { kFree(each); }
};
using PrivateKey = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Free<GENERAL_NAMES_free>>;

// OpenSSL's last error; its queue is empty afterwards.
Error tls_error(const std::string& what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_peek_last_error(), text.data(), text.size());
  ERR_clear_error();
  return error(what + ": " + text.data());
}

// RFC 8996 forbids TLS 1.0 and 1.1, which the descheduler accepts: clients of them are refused.
Result<int> version_of(std::string_view name) {
  if (name.empty() || name == "VersionTLS10" || name == "VersionTLS11" || name == "VersionTLS12") {
    return TLS1_2_VERSION;
  }
  if (name == "VersionTLS13") return TLS1_3_VERSION;
  return error(
      "--tls-min-version: expected VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13, found "
      "'" +
      std::string(name) + "'");
}

// IANA's name of a name that Go had before.
std::string_view standard_name(std::string_view name) {
  if (name == "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305") {
    return "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256";
  }
  if (name == "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305") {
    return "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
  }
  return name;
}

// Of TLS 1.3: in Go they are always on.
bool is_of_tls13(std::string_view name) {
  return name == "TLS_AES_128_GCM_SHA256" || name == "TLS_AES_256_GCM_SHA384" ||
         name == "TLS_CHACHA20_POLY1305_SHA256";
}

// Go has them for old clients, and OpenSSL does not.
bool is_obsolete(std::string_view name) {
  static const std::set<std::string_view> kObsolete = {
      "TLS_RSA_WITH_RC4_128_SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
      "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA", "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
      "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA"};
  return kObsolete.contains(name);
}

const char* openssl_name(SSL_CTX& context, std::string_view name) {
  const STACK_OF(SSL_CIPHER)* const known = SSL_CTX_get_ciphers(&context);
  for (int i = 0; i < sk_SSL_CIPHER_num(known); ++i) {
    const SSL_CIPHER* const each = sk_SSL_CIPHER_value(known, i);
    const char* const standard = SSL_CIPHER_standard_name(each);
    if (standard != nullptr && name == standard) return SSL_CIPHER_get_name(each);
  }
  return nullptr;
}

// Without a suite of TLS 1.2 among them only TLS 1.3 remains, as in Go.
Result<void> use_ciphers(SSL_CTX& context, std::string_view names) {
  if (names.empty()) return {};
  std::string list;
  while (!names.empty()) {
    const std::string_view name = standard_name(trim(next_field(names, ',')));
    if (is_of_tls13(name) || is_obsolete(name)) continue;
    const char* const found = openssl_name(context, name);
    if (found == nullptr) {
      return error("--tls-cipher-suites: no cipher suite '" + std::string(name) + "'");
    }
    list += (list.empty() ? "" : ":") + std::string(found);
  }
  if (list.empty()) {
    SSL_CTX_set_min_proto_version(&context, TLS1_3_VERSION);
    return {};
  }
  if (SSL_CTX_set_cipher_list(&context, list.c_str()) != 1) return tls_error("--tls-cipher-suites");
  return {};
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
Result<void> use_own_certificate(SSL_CTX& context, const PrivateKey& key) {
  constexpr long kTenYears = 10L * 365 * 24 * 3600;
  constexpr long kClocksDiffer = -3600;
  constexpr long kVersion3 = 2;
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
  if (!complete || SSL_CTX_use_certificate(&context, made.get()) != 1 ||
      SSL_CTX_use_PrivateKey(&context, key.get()) != 1) {
    return tls_error("TLS certificate");
  }
  return {};
}

// OpenSSL would prompt for a passphrase on the terminal.
int no_passphrase(char*, int, int, void*) {
  return 0;
}

Result<void> use_files(SSL_CTX& context, const NamedCertificate& files, const char* certificate,
                       const char* key) {
  ERR_clear_error();
  SSL_CTX_set_default_passwd_cb(&context, no_passphrase);
  if (SSL_CTX_use_certificate_chain_file(&context, files.certificate.c_str()) != 1) {
    return tls_error(std::string(certificate) + ' ' + files.certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(&context, files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(&context) != 1) {
    return tls_error(std::string(key) + ' ' + files.key);
  }
  return {};
}

// Of DNS; without any, the common name.
std::vector<std::string> names_in(X509& certificate) {
  std::vector<std::string> names;
  const Names all(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; all && i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* const each = sk_GENERAL_NAME_value(all.get(), i);
    if (each->type != GEN_DNS) continue;
    const auto* const text = reinterpret_cast<const char*>(ASN1_STRING_get0_data(each->d.dNSName));
    names.emplace_back(text, static_cast<std::size_t>(ASN1_STRING_length(each->d.dNSName)));
  }
  if (!names.empty()) return names;
  std::array<char, 256> common{};
  const int size = X509_NAME_get_text_by_NID(X509_get_subject_name(&certificate), NID_commonName,
                                             common.data(), common.size());
  if (size > 0) names.emplace_back(common.data(), static_cast<std::size_t>(size));
  return names;
}

// As names are compared: in lower case, without a dot at the end.
std::string comparable(std::string_view name) {
  std::string text(name.substr(0, name.size() - (name.ends_with('.') ? 1 : 0)));
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return text;
}

int choose_certificate(SSL* connection, int*, void* contexts) {
  const char* const name = SSL_get_servername(connection, TLSEXT_NAMETYPE_host_name);
  if (name == nullptr) return SSL_TLSEXT_ERR_NOACK;
  SSL_CTX* const named = static_cast<const TlsContexts*>(contexts)->named(name);
  if (named != nullptr) SSL_set_SSL_CTX(connection, named);
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

Result<NamedCertificate> parse_named_certificate(std::string_view text) {
  NamedCertificate out;
  const std::size_t colon = text.find(':');
  std::string_view files = text.substr(0, colon);
  std::string_view names = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  out.certificate = trim(next_field(files, ','));
  out.key = trim(files);
  if (out.certificate.empty() || out.key.empty() || out.key.find(',') != std::string::npos ||
      (colon != std::string_view::npos && names.empty())) {
    return error(
        "--tls-sni-cert-key: expected CERTIFICATE,KEY or CERTIFICATE,KEY:NAME,..., found '" +
        std::string(text) + "'");
  }
  while (!names.empty()) out.names.push_back(comparable(trim(next_field(names, ','))));
  return out;
}

Result<TlsContexts::Context> TlsContexts::make_context(const TlsOptions& options) {
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
  TRY(use_ciphers(*context, options.cipher_suites));
  return context;
}

Result<void> TlsContexts::add_files(const TlsOptions& options) {
  if (options.certificate.empty() != options.key.empty()) {
    return error("--tls-cert-file and --tls-private-key-file need each other");
  }
  if (!options.certificate.empty()) {
    contexts_.push_back(TRY(make_context(options)));
    TRY(use_files(*contexts_.back(), {options.certificate, options.key}, "--tls-cert-file",
                  "--tls-private-key-file"));
  }
  // Names that an option has come before those in certificates, and earlier options before later.
  std::vector<std::pair<std::string, SSL_CTX*>> in_certificates;
  for (const std::string& text : options.sni) {
    const NamedCertificate files = TRY(parse_named_certificate(text));
    contexts_.push_back(TRY(make_context(options)));
    SSL_CTX& context = *contexts_.back();
    TRY(use_files(context, files, "--tls-sni-cert-key", "--tls-sni-cert-key"));
    for (const std::string& each : files.names) names_.try_emplace(each, &context);
    if (!files.names.empty()) continue;
    for (const std::string& each : names_in(*SSL_CTX_get0_certificate(&context))) {
      in_certificates.emplace_back(comparable(each), &context);
    }
  }
  for (const auto& [name, context] : in_certificates) names_.try_emplace(name, context);
  return {};
}

Result<void> TlsContexts::check(const TlsOptions& options) {
  TRY(make_context(options));
  TlsContexts contexts;
  return contexts.add_files(options);
}

Result<std::shared_ptr<const TlsContexts>> TlsContexts::create(const TlsOptions& options) {
  constexpr unsigned kRsaBits = 2048;
  auto made = std::make_shared<TlsContexts>();
  TRY(made->add_files(options));
  // As in the descheduler, the first one with names serves all clients if there is no other.
  if (made->contexts_.empty()) {
    made->contexts_.push_back(TRY(make_context(options)));
    SSL_CTX& context = *made->contexts_.back();
    // --tls-cipher-suites may have suites for keys of one kind only.
    TRY(use_own_certificate(context, PrivateKey(EVP_EC_gen("P-256"))));
    TRY(use_own_certificate(context, PrivateKey(EVP_RSA_gen(kRsaBits))));
  }
  if (!made->names_.empty()) {
    SSL_CTX_set_tlsext_servername_callback(&made->first(), choose_certificate);
    SSL_CTX_set_tlsext_servername_arg(&made->first(), made.get());
  }
  return std::shared_ptr<const TlsContexts>(std::move(made));
}

SSL_CTX* TlsContexts::named(std::string_view server_name) const {
  const std::string name = comparable(server_name);
  if (const auto found = names_.find(name); found != names_.end()) return found->second;
  const std::size_t dot = name.find('.');
  if (dot == std::string::npos) return nullptr;
  const auto found = names_.find('*' + name.substr(dot));
  return found == names_.end() ? nullptr : found->second;
}

}  // namespace forestall::cluster
