// SPDX-License-Identifier: Apache-2.0
#include "base/boottime_clock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string_view>

#include "support/child.h"

namespace forestall {
namespace {

constexpr int kRight = 0;
constexpr int kNoNamespace = 2;

// In a time namespace, CLOCK_BOOTTIME is ahead as after a suspend of an hour.
int count_after_an_hour() {
  constexpr std::string_view kOffset = "boottime 3600 0";
  if (::unshare(CLONE_NEWTIME) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWTIME) != 0) {
    return kNoNamespace;
  }
  const int offsets = ::open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
  if (offsets < 0 || ::write(offsets, kOffset.data(), kOffset.size()) < 0) return kNoNamespace;
  const pid_t inside = ::fork();
  if (inside == 0) {
    const MonotonicTime first = SystemClock().now();
    const Duration ahead = BoottimeClock().now() - first;
    ::_exit(ahead >= std::chrono::hours(1) ? kRight : 1);
  }
  int status = 0;
  if (::waitpid(inside, &status, 0) != inside || !WIFEXITED(status)) return 1;
  return WEXITSTATUS(status);
}

TEST(BoottimeClock, CountsWhileTheHostIsSuspended) {
  test::Child child(count_after_an_hour);
  ASSERT_TRUE(child.wait_exit());
  const int status = child.reap();
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoNamespace)
    GTEST_SKIP() << "not applicable: no time namespaces; runs on kernels with CONFIG_TIME_NS, as "
                    "Debian's";
  EXPECT_EQ(WEXITSTATUS(status), kRight);
}

TEST(BoottimeClock, RunsForward) {
  const BoottimeClock clock;
  const MonotonicTime first = clock.now();
  EXPECT_GE(first, SystemClock().now() - std::chrono::minutes(1));
  EXPECT_GE(clock.now(), first);
}

}  // namespace
}  // namespace forestall
