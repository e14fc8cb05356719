// SPDX-License-Identifier: Apache-2.0
#include "sources/usage_arming.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "support/child.h"

namespace forestall::sources {
namespace {

std::shared_ptr<const kernel::UsageEventFiles> accepting_files() {
  auto files = std::make_shared<kernel::UsageEventFiles>();
  files->usage = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  files->control = UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  return files;
}

// The write to a full eventfd blocks, so the thread stands where the loop is woken. On a busy
// machine without real-time priority the loop takes the CPU of the thread at that very moment.
TEST(UsageArming, NoLockIsHeldWhileTheLoopIsWoken) {
  constexpr eventfd_t kFull = UINT64_MAX - 1;
  const UniqueFd done(::eventfd(0, EFD_CLOEXEC));
  ASSERT_EQ(::eventfd_write(done.get(), kFull), 0);
  UsageArming arming(done.get());
  arming.request({CgroupId{}, false, accepting_files(), mib(1)});
  auto taken = std::async(std::launch::async, [&arming] {
    const MonotonicTime deadline = SystemClock().now() + test::kPatience;
    std::size_t count = 0;
    while (count == 0 && SystemClock().now() < deadline) {
      count = arming.take_answers().size();
      std::this_thread::yield();
    }
    arming.request({CgroupId{}, true, accepting_files(), mib(1)});
    return count;
  });
  const bool waits = taken.wait_for(2 * test::kPatience) != std::future_status::ready;
  eventfd_t ignored = 0;
  ASSERT_EQ(::eventfd_read(done.get(), &ignored), 0);
  EXPECT_FALSE(waits);
  EXPECT_EQ(taken.get(), 1U);
}

}  // namespace
}  // namespace forestall::sources
