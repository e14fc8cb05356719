// SPDX-License-Identifier: Apache-2.0
// A signal ends what blocks in this thread, and only while the deadline exists. vmtests have the
// write to memory.high that it is for.
#include "kernel/write_deadline.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>

#include <cerrno>
#include <chrono>

namespace forestall::kernel {
namespace {

using namespace std::chrono_literals;

TEST(WriteDeadlineTest, EndsACallThatBlocks) {
  const WriteDeadline deadline(1ms);
  EXPECT_EQ(::poll(nullptr, 0, -1), -1);
  EXPECT_EQ(errno, EINTR);
}

TEST(WriteDeadlineTest, EndsACallThatBeginsAfterTheTime) {
  const WriteDeadline deadline(1ns);
  for (int calls = 0; calls < 3; ++calls) EXPECT_EQ(::poll(nullptr, 0, -1), -1);
}

TEST(WriteDeadlineTest, LeavesTheSignalsOfTheThreadAsTheyWere) {
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  { const WriteDeadline deadline(1h); }
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
  }
}

}  // namespace
}  // namespace forestall::kernel
