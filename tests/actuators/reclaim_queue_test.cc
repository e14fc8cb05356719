// SPDX-License-Identifier: Apache-2.0
// Which reclaim begins next, and which are dropped.
#include "actuators/reclaim_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace forestall::actuators {
namespace {

MonotonicTime at(int second) {
  return MonotonicTime(std::chrono::seconds(second));
}

// The path is a letter, the cgroup its code.
RuleReclaim reclaim(const std::string& ruleset, char path) {
  RuleReclaim made;
  made.cgroup = CgroupId{static_cast<std::uint64_t>(path)};
  made.path = std::string(1, path);
  made.amount = mib(1);
  made.ruleset = ruleset;
  return made;
}

RuleReclaim proactive(const std::string& ruleset, char path, int until = 100) {
  RuleReclaim made = reclaim(ruleset, path);
  made.proactive = true;
  made.until = at(until);
  return made;
}

class ReclaimQueueTest : public ::testing::Test {
 protected:
  // Paths, in the order in which they begin.
  std::string take(int count, int now = 0, bool may_be_proactive = true) {
    std::string paths;
    for (int i = 0; i < count; ++i) {
      const auto taken = queue_.take(at(now), may_be_proactive);
      if (!taken) return paths;
      queue_.end();
      paths += taken->path;
    }
    return paths;
  }
  std::string dropped() {
    std::string paths;
    for (const RuleReclaim& each : queue_.take_dropped()) paths += each.path;
    return paths;
  }

  ReclaimQueue queue_;
};

TEST_F(ReclaimQueueTest, ProactiveOnesWaitForAllOthers) {
  queue_.add({proactive("p", 'a'), proactive("p", 'b')});
  queue_.add({reclaim("r", 'd'), reclaim("r", 'c')});
  EXPECT_EQ(take(9), "dcab");
}

TEST_F(ReclaimQueueTest, ProactiveOnesMayBeHeldBack) {
  queue_.add({proactive("p", 'a'), reclaim("r", 'b')});
  EXPECT_EQ(take(9, 0, false), "b");
  EXPECT_EQ(take(9), "a");
}

TEST_F(ReclaimQueueTest, TheTurnContinuesAfterTheOneServedLast) {
  const std::vector<RuleReclaim> all{proactive("p", 'a'), proactive("p", 'b'), proactive("p", 'c'),
                                     proactive("q", 'a')};
  std::string begun;
  for (int i = 0; i < 4; ++i) {  // time for three of the four
    queue_.add(all);
    begun += take(3) + " ";
  }
  EXPECT_EQ(begun, "abc aab caa bca ");
}

TEST_F(ReclaimQueueTest, WithTooLittleTimeEachIsServedAsOften) {
  std::map<std::string, int> begun;
  for (int second = 0; second < 260; ++second) {
    std::vector<RuleReclaim> all;
    for (char path = 'a'; path <= 'z'; ++path) all.push_back(proactive("p", path, second + 2));
    queue_.add(std::move(all));
    for (const char path : take(3, second)) ++begun[std::string(1, path)];
  }
  EXPECT_EQ(begun.size(), 26U);
  for (const auto& [path, times] : begun) EXPECT_EQ(times, 30) << path;
  EXPECT_EQ(queue_.take_dropped().size(), 4096U) << "the number is bounded";
}

TEST_F(ReclaimQueueTest, WhatIsTooLateIsDroppedAndReportedOnce) {
  queue_.add({proactive("p", 'a', 2), proactive("p", 'b', 3)});
  EXPECT_EQ(take(9, 2), "b");
  EXPECT_EQ(dropped(), "a");
  EXPECT_EQ(dropped(), "");
}

TEST_F(ReclaimQueueTest, AProactiveOneReplacesThatOfItsCgroupOnly) {
  queue_.add({proactive("p", 'a'), proactive("p", 'b'), proactive("q", 'a')});
  queue_.add({proactive("p", 'a')});
  EXPECT_EQ(dropped(), "a");
  EXPECT_EQ(take(9), "aba") << "one of each";
}

// A ruleset that still fires requests them again, so none of these is reported.
TEST_F(ReclaimQueueTest, AnotherReclaimReplacesAllOfItsRuleset) {
  queue_.add({reclaim("r", 'a'), reclaim("r", 'b'), reclaim("s", 'c')});
  queue_.add({reclaim("r", 'd')});
  EXPECT_EQ(take(9), "cd");
  EXPECT_EQ(dropped(), "");
}

TEST_F(ReclaimQueueTest, OneOfTheCgroupUnderWayIsDropped) {
  queue_.add({reclaim("r", 'a'), reclaim("s", 'a')});
  ASSERT_TRUE(queue_.take(at(0), true));
  queue_.add({proactive("p", 'a'), proactive("p", 'b')});
  EXPECT_EQ(dropped(), "a");
  queue_.end();
  EXPECT_EQ(take(9), "ab") << "the one that was there before is kept";
}

TEST_F(ReclaimQueueTest, ClearingDropsAll) {
  queue_.add({proactive("p", 'a'), reclaim("r", 'b')});
  queue_.clear();
  EXPECT_EQ(take(9), "");
  EXPECT_EQ(dropped(), "a");
}

}  // namespace
}  // namespace forestall::actuators
