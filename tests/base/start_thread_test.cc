// SPDX-License-Identifier: Apache-2.0
#include "base/start_thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace forestall {
namespace {

TEST(StartThread, Runs) {
  bool ran = false;
  auto made = start_thread("t", [&] { ran = true; });
  ASSERT_TRUE(made) << made.error().text();
  made->join();
  EXPECT_TRUE(ran);
}

// As a user that may have one task and already has it.
TEST(StartThread, ALimitOnTasksIsAnError) {
  constexpr uid_t kOtherUser = 54321;
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit one{1, 1};
    if (::setgid(kOtherUser) != 0 || ::setuid(kOtherUser) != 0 ||
        ::setrlimit(RLIMIT_NPROC, &one) != 0) {
      ::_exit(2);
    }
    const auto made = start_thread("t", [] {});
    ::_exit(!made && made.error().code == EAGAIN ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "it was ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "2: needs root";
}

}  // namespace
}  // namespace forestall
