// SPDX-License-Identifier: Apache-2.0
#include "cases/psi_stall.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "integration/bpf_events.h"
#include "support/child.h"
#include "support/temp_tree.h"

namespace forestall::vm {
namespace {

// The kernel adds stalls to `total` when the file is read, at most once in two seconds (PSI_FREQ,
// kernel/sched/psi.c): wait for the next period.
void wait_psi_period() {
  const UniqueFd period(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  const itimerspec once{{0, 0}, {2, 100'000'000}};
  std::uint64_t expirations = 0;
  ASSERT_EQ(::timerfd_settime(period.get(), 0, &once, nullptr), 0);
  ASSERT_EQ(::read(period.get(), &expirations, sizeof(expirations)),
            static_cast<ssize_t>(sizeof(expirations)));
}

std::uint64_t psi_some_us(const std::string& file) {
  const std::string text = test::read_text(file);
  return std::stoull(text.substr(text.find("total=") + 6));
}

// PSI weighs each CPU's stall by its busy time, so only on one CPU its total is the plain sum.
bool stay_on_one_cpu() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  return ::sched_setaffinity(0, sizeof(one), &one) == 0;
}

}  // namespace

std::uint64_t psi_us_of_stalls(const test::ScratchCgroup& scratch, const std::string& path) {
  const std::string file =
      (test::mounts().v1 ? scratch.unified_directory(path) : scratch.directory(path)) +
      "/memory.pressure";
  const test::CacheFile cache(mib(64));
  wait_psi_period();
  const std::uint64_t before = psi_some_us(file);
  test::Child reader([&] {
    scratch.add(path, ::getpid());
    // Inside the cgroup, because before 6.2 the cpuset controller of v2 resets it on entry.
    return stay_on_one_cpu() ? cache.read_through(4) : 3;
  });
  EXPECT_TRUE(reader.wait_exit(std::chrono::seconds(100)));
  EXPECT_EQ(reader.reap(), 0);
  wait_psi_period();
  return psi_some_us(file) - before;
}

}  // namespace forestall::vm
