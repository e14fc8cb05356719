// SPDX-License-Identifier: Apache-2.0
#include "support/fake_managed_oom.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <stdexcept>

namespace forestall::test {

FakeManagedOom::FakeManagedOom() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path().copy(address.sun_path, sizeof(address.sun_path) - 1);
  listening_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* general = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(listening_.get(), general, sizeof(address)) != 0 ||
      ::listen(listening_.get(), 4) != 0) {
    throw std::runtime_error("no socket at " + path());
  }
}

std::string FakeManagedOom::accept() {
  client_.reset(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  std::string call;
  for (char byte = 0; ::recv(client_.get(), &byte, 1, 0) == 1 && byte != '\0';) call += byte;
  return call;
}

void FakeManagedOom::report(std::string_view elements) const {
  std::string reply = R"({"parameters":{"cgroups":[)";
  reply.append(elements).append(R"(]},"continues":true})").push_back('\0');
  send(reply);
}

void FakeManagedOom::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const auto sent = ::send(client_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the client left
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace forestall::test
