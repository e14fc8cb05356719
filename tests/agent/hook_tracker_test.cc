// SPDX-License-Identifier: Apache-2.0
// What observations list of prekill hooks.
#include "agent/hook_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/manual_clock.h"

namespace forestall::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ScriptedHooks final : public actuators::HookRunner {
 public:
  Result<void> start() override { return refusal ? Result<void>(*refusal) : Result<void>(); }
  void run(actuators::HookRequest request) override { runs.push_back(request.run); }
  void cancel() override { runs.clear(); }
  void cancel_runs(const std::vector<std::uint64_t>& dropped) override {
    for (const std::uint64_t each : dropped) std::erase(runs, each);
  }
  std::vector<actuators::HookResult> take_results() override { return std::exchange(results, {}); }
  void ends(std::uint64_t run, HookState state) {
    actuators::HookResult result;
    result.run = run;
    result.state = state;
    result.exit_code = 3;
    result.took = std::chrono::seconds(1);
    results.push_back(std::move(result));
  }

  std::optional<Error> refusal;
  std::vector<std::uint64_t> runs;
  std::vector<actuators::HookResult> results;
};

class HookTrackerTest : public ::testing::Test {
 protected:
  HookTrackerTest() { clock_.advance(std::chrono::hours(1)); }

  void request(std::uint64_t run, const std::string& ruleset = "r") {
    actuators::HookRequest hook;
    hook.run = run;
    hook.hook.name = "dump";
    hook.until = clock_.now() + std::chrono::seconds(5);
    tracker_.request(std::move(hook), "/a", ruleset);
  }
  std::vector<std::string> listed() {
    std::vector<std::string> all;
    for (const HookProgress& each : tracker_.progress()) {
      all.push_back(std::to_string(each.run) + " " + std::string(to_string(each.state)));
    }
    return all;
  }

  ScriptedHooks runner_;
  test::ManualClock clock_;
  HookTracker tracker_{runner_, clock_};
};

TEST_F(HookTrackerTest, EndsAndForgetsTheHooksOfRulesetsThatAreGone) {
  ASSERT_TRUE(tracker_.start());
  request(1, "gone");
  request(2, "kept");
  tracker_.keep_only([](const std::string& ruleset) { return ruleset == "kept"; });
  EXPECT_THAT(listed(), ElementsAre("2 running"));
  EXPECT_THAT(runner_.runs, ElementsAre(2U));
}

TEST_F(HookTrackerTest, ListsAHookFromItsRequestUntilItIsForgotten) {
  ASSERT_TRUE(tracker_.start());
  request(1);
  const MonotonicTime requested = clock_.now();
  EXPECT_THAT(listed(), ElementsAre("1 running"));
  clock_.advance(std::chrono::seconds(2));
  runner_.ends(1, HookState::failed);
  EXPECT_THAT(listed(), ElementsAre("1 failed"));
  const HookProgress hook = tracker_.progress().front();
  EXPECT_EQ(hook.hook, "dump");
  EXPECT_EQ(hook.cgroup, "/a");
  EXPECT_EQ(hook.started, requested);
  EXPECT_EQ(hook.exit_code, 3);
  EXPECT_EQ(hook.took, std::chrono::seconds(1));
  EXPECT_EQ(tracker_.take_ended().size(), 1U);
  EXPECT_EQ(tracker_.take_ended().size(), 0U);
  clock_.advance(HookTracker::kForgetAfter);
  EXPECT_THAT(listed(), IsEmpty());
}

TEST_F(HookTrackerTest, WithoutAThreadEachRequestIsRefused) {
  runner_.refusal = Error{EAGAIN, "no thread"};
  EXPECT_FALSE(tracker_.start());
  request(1);
  EXPECT_THAT(runner_.runs, IsEmpty());
  EXPECT_THAT(listed(), ElementsAre("1 refused"));
}

TEST_F(HookTrackerTest, OneWhoseResultWasDroppedHasTimedOut) {
  request(1);
  clock_.advance(std::chrono::seconds(5) + HookTracker::kLostAfter);
  EXPECT_THAT(listed(), ElementsAre("1 timed-out"));
}

TEST_F(HookTrackerTest, ACancelForgetsAllAndALateResultIsNotThatOfTheNextRun) {
  request(1);
  tracker_.cancel();
  EXPECT_THAT(listed(), IsEmpty());
  EXPECT_THAT(runner_.runs, IsEmpty());
  runner_.ends(1, HookState::succeeded);
  EXPECT_THAT(listed(), IsEmpty());
}

}  // namespace
}  // namespace forestall::agent
