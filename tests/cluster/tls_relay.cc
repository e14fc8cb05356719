// SPDX-License-Identifier: Apache-2.0
#include "tls_relay.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <stdexcept>

#include "base/parse.h"

namespace forestall::test {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

bool sent_all(int fd, const char* bytes, int count) {
  return ::send(fd, bytes, static_cast<std::size_t>(count), MSG_NOSIGNAL) == count;
}

}  // namespace

TlsRelay::TlsRelay(const std::string& server)
    : context_(SSL_CTX_new(TLS_server_method())),
      listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      wake_(::eventfd(0, EFD_CLOEXEC)) {
  server_port_ =
      static_cast<std::uint16_t>(parse_u64(server.substr(server.rfind(':') + 1)).value());
  make_certificate();
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listening_.get(), any, size) != 0 || ::listen(listening_.get(), 4) != 0 ||
      ::getsockname(listening_.get(), any, &size) != 0) {
    throw std::runtime_error("no port for the TLS relay");
  }
  url_ = fmt::format("https://127.0.0.1:{}", ntohs(address.sin_port));
  thread_ = std::thread([this] { serve(); });
}

TlsRelay::~TlsRelay() {
  (void)eventfd_write(wake_.get(), 1);
  thread_.join();
}

void TlsRelay::make_certificate() {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> made(X509_new(), X509_free);
  X509_set_version(made.get(), X509_VERSION_3);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
  X509_NAME* const name = X509_get_subject_name(made.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("relay"), -1, -1, 0);
  X509_set_issuer_name(made.get(), name);
  X509_EXTENSION* const host =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
  X509_add_ext(made.get(), host, -1);
  X509_EXTENSION_free(host);
  X509_set_pubkey(made.get(), key.get());
  X509_sign(made.get(), key.get(), EVP_sha256());
  SSL_CTX_use_certificate(context_.get(), made.get());
  SSL_CTX_use_PrivateKey(context_.get(), key.get());
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_X509(text.get(), made.get());
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(text.get(), &bytes);
  authority_.assign(bytes, static_cast<std::size_t>(size));
}

bool TlsRelay::wait_for(int first, int second) const {
  std::array<pollfd, 3> fds{{{wake_.get(), POLLIN, 0}, {first, POLLIN, 0}, {second, POLLIN, 0}}};
  return ::poll(fds.data(), fds.size(), -1) > 0 && fds[0].revents == 0;
}

void TlsRelay::serve() {
  while (wait_for(listening_.get(), -1)) {
    const UniqueFd client(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    relay(client.get());
  }
}

// Until one side ends.
void TlsRelay::relay(int client) const {
  const std::unique_ptr<SSL, decltype(&SSL_free)> tls(SSL_new(context_.get()), SSL_free);
  SSL_set_fd(tls.get(), client);
  if (SSL_accept(tls.get()) != 1) return;
  const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(server_port_);
  if (::connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return;
  }
  std::array<char, 4096> bytes{};
  const auto readable = [](int fd) {
    pollfd one{fd, POLLIN, 0};
    return ::poll(&one, 1, 0) > 0;
  };
  while (SSL_pending(tls.get()) > 0 || wait_for(client, server.get())) {
    if (SSL_pending(tls.get()) > 0 || readable(client)) {
      const int count = SSL_read(tls.get(), bytes.data(), bytes.size());
      if (count <= 0 || !sent_all(server.get(), bytes.data(), count)) return;
    }
    if (readable(server.get())) {
      const auto count = ::recv(server.get(), bytes.data(), bytes.size(), 0);
      if (count <= 0 || SSL_write(tls.get(), bytes.data(), static_cast<int>(count)) <= 0) return;
    }
  }
}

}  // namespace forestall::test
