// SPDX-License-Identifier: Apache-2.0
// What a service manager's descriptor store may hold besides the guard.
#include "kernel/fd_store.h"

#include <bpf/bpf.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "descriptor_store.h"
#include "support/child.h"

namespace forestall::test::fd_store_test {
namespace {

TEST(FdStore, ADescriptorOfAnotherNameRefusesTheStore) {
  DescriptorStore manager;
  const UniqueFd map(bpf_map_create(BPF_MAP_TYPE_ARRAY, "other", 4, 64, 1, nullptr));
  ASSERT_TRUE(kernel::FdStore::inherit()->keep("other", map.get()).ok());
  manager.receive();
  Child next([&] {
    manager.pass();
    const auto kept = kernel::FdStore::inherit()->kept();
    return !kept.ok() && kept.error().text().find("passed other, which is not") != std::string::npos
               ? 0
               : 1;
  });
  ASSERT_TRUE(next.wait_exit());
  EXPECT_EQ(next.reap(), 0);
}

// From systemd 254 on. Without it what does not fit is refused silently.
TEST(FdStore, ADescriptorBeyondTheLimitOfTheUnitIsRefused) {
  DescriptorStore manager;
  const UniqueFd map(bpf_map_create(BPF_MAP_TYPE_ARRAY, "other", 4, 64, 1, nullptr));
  ::setenv("FDSTORE", "1", 1);
  const auto store = kernel::FdStore::inherit();
  ::unsetenv("FDSTORE");
  EXPECT_EQ(store->room().max, 1U);
  ASSERT_TRUE(store->keep("guard-turn", map.get()).ok());
  EXPECT_TRUE(store->keep("guard-turn", map.get()).ok()) << "the same once more";
  const auto refused = store->keep("guard-1-1-ring", map.get());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text().find("FileDescriptorStoreMax=1"), std::string::npos);
  EXPECT_EQ(kernel::FdStore::inherit()->room().max, std::nullopt);
}

// systemd passes systemd-oomd.service the socket of systemd-oomd.socket.
TEST(FdStore, AListeningSocketIsNotInTheStore) {
  DescriptorStore manager;
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr address{AF_UNIX, {}};
  ASSERT_EQ(::bind(socket.get(), &address, sizeof(address.sa_family)), 0);  // a name of the kernel
  ASSERT_EQ(::listen(socket.get(), 1), 0);
  ASSERT_TRUE(kernel::FdStore::inherit()->keep("systemd-oomd.socket", socket.get()).ok());
  manager.receive();
  Child next([&] {
    manager.pass();
    const auto store = kernel::FdStore::inherit();
    return store->empty() && store->kept().ok() ? 0 : 1;
  });
  ASSERT_TRUE(next.wait_exit());
  EXPECT_EQ(next.reap(), 0);
}

}  // namespace
}  // namespace forestall::test::fd_store_test
