// SPDX-License-Identifier: Apache-2.0
// Puts TLS in front of a server of this process: what it decrypts goes to the server's port, and
// the answers go back. One connection at a time.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/unique_fd.h"

namespace forestall::test {

class TlsRelay {
 public:
  // With a certificate for 127.0.0.1 that signs itself. `server`: "http://127.0.0.1:PORT".
  explicit TlsRelay(const std::string& server);
  TlsRelay(const TlsRelay&) = delete;
  TlsRelay& operator=(const TlsRelay&) = delete;
  ~TlsRelay();

  // "https://127.0.0.1:PORT".
  [[nodiscard]] const std::string& url() const { return url_; }
  // The certificate as PEM.
  [[nodiscard]] const std::string& authority() const { return authority_; }

 private:
  struct Release {
    void operator()(SSL_CTX* each) const { SSL_CTX_free(each); }
  };

  void make_certificate();
  void serve();
  void relay(int client) const;
  // False: the relay ends.
  [[nodiscard]] bool wait_for(int first, int second) const;

  const std::unique_ptr<SSL_CTX, Release> context_;
  std::uint16_t server_port_ = 0;
  UniqueFd listening_;
  UniqueFd wake_;
  std::string url_;
  std::string authority_;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace forestall::test
