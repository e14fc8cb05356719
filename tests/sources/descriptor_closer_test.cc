// SPDX-License-Identifier: Apache-2.0
#include "sources/descriptor_closer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace forestall::sources {
namespace {

struct TcpConnection {
  UniqueFd sender;
  UniqueFd receiver;
};

TcpConnection connect_to_self() {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  TcpConnection made;
  made.sender = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listener.get(), generic, length) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), generic, &length) != 0 ||
      ::connect(made.sender.get(), generic, length) != 0) {
    return {};
  }
  made.receiver = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return made;
}

// close() of a socket that lingers waits until the other end has received everything. It would
// never return here, because this thread is the one that receives afterwards.
TEST(DescriptorCloser, TheCallerDoesNotWaitForAClose) {
  TcpConnection connection = connect_to_self();
  ASSERT_TRUE(connection.sender.valid() && connection.receiver.valid());
  const linger lingers{1, 3600};
  ASSERT_EQ(::setsockopt(connection.sender.get(), SOL_SOCKET, SO_LINGER, &lingers, sizeof(lingers)),
            0);
  const std::array<char, 65536> block{};
  std::size_t sent = 0;
  for (;;) {
    const ssize_t part = ::send(connection.sender.get(), block.data(), block.size(), MSG_DONTWAIT);
    if (part < 0) break;  // both buffers are full
    sent += static_cast<std::size_t>(part);
  }
  auto closer = DescriptorCloser::create();
  ASSERT_TRUE(closer) << closer.error().text();
  (*closer)->close(std::move(connection.sender));
  std::array<char, 65536> received{};
  std::size_t total = 0;
  ssize_t part = 0;
  while ((part = ::recv(connection.receiver.get(), received.data(), received.size(), 0)) > 0) {
    total += static_cast<std::size_t>(part);
  }
  EXPECT_EQ(part, 0) << "closed";
  EXPECT_EQ(total, sent);
}

}  // namespace
}  // namespace forestall::sources
