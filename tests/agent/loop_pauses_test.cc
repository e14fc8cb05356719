// SPDX-License-Identifier: Apache-2.0
#include "agent/loop_pauses.h"

#include <gtest/gtest.h>

namespace forestall::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

MonotonicTime at(Duration since_start) {
  return MonotonicTime(seconds(100) + since_start);
}

// A loop whose last callback ended at 0 s and is due again at 10 s.
LoopPauses idle_loop() {
  LoopPauses pauses;
  pauses.began(at({}));
  pauses.ended(at({}), at(seconds(10)));
  return pauses;
}

TEST(LoopPauses, APauseIsFromTheLastCallbackToThisOne) {
  LoopPauses pauses = idle_loop();
  pauses.began(at(seconds(12)));
  const auto pause = pauses.before(at(seconds(12)));
  EXPECT_EQ(pause.from, at({}));
  EXPECT_EQ(pause.due, at(seconds(10)));
  EXPECT_EQ(pause.to, at(seconds(12)));
}

TEST(LoopPauses, OneThatIsDueInThePastIsDueAtOnce) {
  LoopPauses pauses;
  pauses.ended(at(seconds(5)), at(seconds(1)));
  EXPECT_EQ(pauses.before(at(seconds(6))).due, at(seconds(5)));
}

TEST(LoopPauses, SigcontEndsThePauseBeforeItsOwnCallback) {
  LoopPauses pauses = idle_loop();
  pauses.began(at(seconds(4)));
  EXPECT_EQ(pauses.before_continued(at(seconds(4))).from, at({}));
}

// The event that epoll_wait(2) had returned before the stop is handled before SIGCONT.
TEST(LoopPauses, SigcontEndsThePauseBeforeAnEventThatWasHandledFirst) {
  LoopPauses pauses = idle_loop();
  pauses.began(at(seconds(4)));
  pauses.ended(at(seconds(4) + milliseconds(1)), at(seconds(10)));
  pauses.began(at(seconds(4) + milliseconds(2)));
  const auto pause = pauses.before_continued(at(seconds(4) + milliseconds(2)));
  EXPECT_EQ(pause.from, at({}));
  EXPECT_EQ(pause.to, at(seconds(4)));
}

TEST(LoopPauses, AnEarlierPauseIsNotTheOneThatSigcontEnds) {
  LoopPauses pauses = idle_loop();
  pauses.began(at(seconds(4)));
  for (int i = 0; i < 10; ++i) {
    const MonotonicTime now = at(seconds(4) + milliseconds(100 * i));
    pauses.began(now);
    pauses.ended(now, at(seconds(10)));
  }
  const MonotonicTime last = at(seconds(4) + milliseconds(900));
  EXPECT_EQ(pauses.before_continued(last + milliseconds(1)).from, last);
}

}  // namespace
}  // namespace forestall::agent
