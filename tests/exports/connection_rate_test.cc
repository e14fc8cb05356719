// SPDX-License-Identifier: Apache-2.0
// Limits of connections, with the kernel's filter on real listening sockets. The loopback interface
// delivers a packet before the call that sends it returns.
#include "exports/connection_rate.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/membarrier.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace forestall::exports {
namespace {

// Dual stack, as "[::]:9464".
class ConnectionRateTest : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<sock_filter> code = refusing_filter({});
    const sock_fprog program{.len = static_cast<std::uint16_t>(code.size()), .filter = code.data()};
    if (setsockopt(listening_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) !=
        0) {
      GTEST_SKIP() << "not applicable: this kernel permits socket filters only with "
                      "CAP_NET_ADMIN; runs as root";
    }
    const int no = 0;
    ASSERT_EQ(setsockopt(listening_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no)), 0);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    ASSERT_EQ(bind(listening_.get(), reinterpret_cast<sockaddr*>(&any), sizeof(any)), 0);
    ASSERT_EQ(listen(listening_.get(), 16), 0);
    socklen_t size = sizeof(any);
    ASSERT_EQ(getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&any), &size), 0);
    port_ = any.sin6_port;
  }

  // Whether the listening socket takes a connection from this loopback address.
  [[nodiscard]] bool reaches_v4(std::uint8_t last) const {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~0xFFU) | last);
    sockaddr_in to = own;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = port_;
    return connects(AF_INET, reinterpret_cast<sockaddr*>(&own), reinterpret_cast<sockaddr*>(&to),
                    sizeof(own));
  }
  [[nodiscard]] bool reaches_v6() const {
    sockaddr_in6 own{};
    own.sin6_family = AF_INET6;
    own.sin6_addr = in6addr_loopback;
    sockaddr_in6 to = own;
    to.sin6_port = port_;
    return connects(AF_INET6, reinterpret_cast<sockaddr*>(&own), reinterpret_cast<sockaddr*>(&to),
                    sizeof(own));
  }

  void connect_often(const std::string& address, int count = ConnectionRate::kOfAddress) {
    for (int i = 0; i < count; ++i) EXPECT_TRUE(rate_.admit(address, now_)) << i;
  }

  static std::string v4(std::uint8_t last) { return {127, 0, 0, static_cast<char>(last)}; }
  static std::string mapped(std::uint8_t last) {
    return std::string(10, '\0') + "\xff\xff" + v4(last);
  }
  static std::string v6() { return std::string(15, '\0') + '\1'; }

  const UniqueFd listening_{socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  in_port_t port_ = 0;
  ConnectionRate rate_{listening_.get()};
  MonotonicTime now_{std::chrono::seconds(100)};

 private:
  [[nodiscard]] bool connects(int family, const sockaddr* own, const sockaddr* to,
                              socklen_t size) const {
    const UniqueFd client(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(bind(client.get(), own, size), 0);
    EXPECT_TRUE(connect(client.get(), to, size) == 0 || errno == EINPROGRESS);
    return UniqueFd(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC)).valid();
  }
};

TEST_F(ConnectionRateTest, AnAddressThatConnectsTooOftenIsRefusedUntilThePeriodEnds) {
  ASSERT_TRUE(reaches_v4(2));
  EXPECT_FALSE(rate_.resumes());
  connect_often(mapped(2), ConnectionRate::kOfAddress - 1);
  EXPECT_TRUE(reaches_v4(2));
  EXPECT_TRUE(rate_.admit(mapped(2), now_));
  EXPECT_FALSE(reaches_v4(2));
  EXPECT_TRUE(reaches_v4(3));
  EXPECT_TRUE(reaches_v6());
  // It was in the backlog.
  EXPECT_FALSE(rate_.admit(mapped(2), now_));
  EXPECT_TRUE(rate_.admit(mapped(3), now_));
  EXPECT_EQ(rate_.resumes(), now_ + ConnectionRate::kPeriod);
  rate_.renew(now_ + ConnectionRate::kPeriod - Duration(1));
  EXPECT_FALSE(reaches_v4(2));
  rate_.renew(now_ + ConnectionRate::kPeriod);
  EXPECT_TRUE(reaches_v4(2));
  EXPECT_FALSE(rate_.resumes());
}

TEST_F(ConnectionRateTest, RefusesAddressesOfIPv6) {
  connect_often(v6());
  EXPECT_FALSE(reaches_v6());
  EXPECT_TRUE(reaches_v4(2));
  connect_often(mapped(2));
  EXPECT_FALSE(reaches_v6());
  EXPECT_FALSE(reaches_v4(2));
  EXPECT_TRUE(reaches_v4(3));
  now_ += ConnectionRate::kPeriod;
  EXPECT_TRUE(rate_.admit(v6(), now_));
  EXPECT_TRUE(reaches_v6());
}

TEST_F(ConnectionRateTest, ManyRefusedAddressesFitTheFilter) {
  std::vector<std::string> addresses;
  for (std::uint8_t i = 0; i < ConnectionRate::kRefusedMax; ++i) {
    addresses.push_back(i % 2 == 0 ? mapped(i) : std::string(15, '\2') + static_cast<char>(i));
  }
  std::vector<sock_filter> code = refusing_filter(addresses);
  const sock_fprog program{.len = static_cast<std::uint16_t>(code.size()), .filter = code.data()};
  ASSERT_EQ(setsockopt(listening_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)),
            0);
  EXPECT_FALSE(reaches_v4(2));
  EXPECT_FALSE(reaches_v4(30));
  EXPECT_TRUE(reaches_v4(3));
  EXPECT_TRUE(reaches_v6());
}

TEST_F(ConnectionRateTest, AllAddressesTogetherAreLimited) {
  for (int i = 0; !rate_.is_full(); ++i) {
    ASSERT_LT(i, ConnectionRate::kBatch);
    EXPECT_TRUE(rate_.admit(v4(static_cast<std::uint8_t>(i % 200)), now_));
  }
  EXPECT_EQ(rate_.resumes(), now_ + ConnectionRate::kPeriod);
  rate_.await_memory();
  const bool can_wait =
      sysconf(_SC_NPROCESSORS_ONLN) > 1 &&
      (syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) & MEMBARRIER_CMD_GLOBAL) != 0;
  EXPECT_EQ(rate_.is_full(), !can_wait);
  rate_.renew(now_ + ConnectionRate::kPeriod);
  EXPECT_FALSE(rate_.is_full());
}

}  // namespace
}  // namespace forestall::exports
