// SPDX-License-Identifier: Apache-2.0
#include "kernel/failure_pause.h"

#include <gtest/gtest.h>

namespace forestall::kernel {
namespace {

using std::chrono::milliseconds;

class FailurePauseTest : public testing::Test {
 protected:
  // One try that takes this long.
  void fail(Duration took) {
    const MonotonicTime began = now_;
    now_ += took;
    pause_.failed(began, now_);
  }

  MonotonicTime now_{};
  FailurePause pause_{3, 100};
};

TEST_F(FailurePauseTest, FollowsTheLastOfSoManyFailures) {
  fail(milliseconds(1));
  fail(milliseconds(1));
  EXPECT_TRUE(pause_.over(now_));
  fail(milliseconds(1));
  EXPECT_FALSE(pause_.over(now_));
}

TEST_F(FailurePauseTest, LastsAMultipleOfTheTimeTheyTook) {
  fail(milliseconds(1));
  fail(milliseconds(2));
  fail(milliseconds(4));
  EXPECT_FALSE(pause_.over(now_ + milliseconds(699)));
  EXPECT_TRUE(pause_.over(now_ + milliseconds(700)));
}

TEST_F(FailurePauseTest, ASuccessBeginsTheCountAgain) {
  fail(milliseconds(1));
  fail(milliseconds(1));
  pause_.succeeded();
  fail(milliseconds(1));
  fail(milliseconds(1));
  EXPECT_TRUE(pause_.over(now_));
  fail(milliseconds(1));
  EXPECT_FALSE(pause_.over(now_ + milliseconds(299)));
  EXPECT_TRUE(pause_.over(now_ + milliseconds(300))) << "what failed before does not count";
}

TEST_F(FailurePauseTest, FailuresAfterAPauseCountAnew) {
  for (int i = 0; i < 3; ++i) fail(milliseconds(1));
  now_ += milliseconds(300);
  fail(milliseconds(1));
  EXPECT_TRUE(pause_.over(now_));
}

}  // namespace
}  // namespace forestall::kernel
