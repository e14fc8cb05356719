// SPDX-License-Identifier: Apache-2.0
// What observations list of restarts of units.
#include "agent/restart_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "model/unit_restart.h"
#include "support/manual_clock.h"

namespace forestall::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ScriptedRestarts final : public actuators::UnitRestarter {
 public:
  Result<void> start() override { return refusal ? Result<void>(*refusal) : Result<void>(); }
  void restart(const std::string& unit) override { units.push_back(unit); }
  std::vector<actuators::UnitRestartResult> take_results() override {
    return std::exchange(results, {});
  }
  void ends(const std::string& unit, std::optional<Error> failure = {}, bool begun = true) {
    results.push_back({unit, std::chrono::seconds(1), std::move(failure), begun});
  }

  std::optional<Error> refusal;
  std::vector<std::string> units;
  std::vector<actuators::UnitRestartResult> results;
};

class RestartTrackerTest : public ::testing::Test {
 protected:
  RestartTrackerTest() { clock_.advance(std::chrono::hours(1)); }
  std::vector<std::string> listed() {
    std::vector<std::string> all;
    for (const KillProgress& each : tracker_.progress()) {
      all.push_back(each.path + " " + std::string(to_string(each.state)));
    }
    return all;
  }

  ScriptedRestarts restarter_;
  test::ManualClock clock_;
  RestartTracker tracker_{restarter_, clock_};
};

TEST_F(RestartTrackerTest, ListsARestartFromItsRequestUntilItIsForgotten) {
  ASSERT_TRUE(tracker_.start());
  tracker_.request("a.service");
  const MonotonicTime requested = clock_.now();
  EXPECT_THAT(listed(), ElementsAre("a.service in-flight"));
  clock_.advance(std::chrono::seconds(2));
  restarter_.ends("a.service");
  EXPECT_THAT(listed(), ElementsAre("a.service released"));
  const KillProgress restart = tracker_.progress().front();
  EXPECT_EQ(restart.started, requested);
  EXPECT_TRUE(is_unit_restart(restart));
  EXPECT_NE(restart.cgroup, CgroupId{});
  clock_.advance(RestartTracker::kForgetAfter - std::chrono::seconds(1));
  EXPECT_EQ(listed().size(), 1U);
  clock_.advance(std::chrono::seconds(1));
  EXPECT_THAT(listed(), IsEmpty());
}

// Processes may have ended only if systemd had the request.
TEST_F(RestartTrackerTest, AFailureIsStuckIfItWasBegun) {
  tracker_.request("a.service");
  tracker_.request("b.service");
  restarter_.ends("a.service", Error{0, "the job's result is failed"}, /*begun=*/true);
  restarter_.ends("b.service", Error{0, "not found"}, /*begun=*/false);
  EXPECT_THAT(listed(), ElementsAre("a.service stuck", "b.service failed"));
  EXPECT_EQ(tracker_.take_results().size(), 2U);
  EXPECT_EQ(tracker_.take_results().size(), 0U);
}

TEST_F(RestartTrackerTest, AUnitIsRequestedOnceAtATime) {
  tracker_.request("a.service");
  tracker_.request("a.service");
  EXPECT_THAT(restarter_.units, ElementsAre("a.service"));
  restarter_.ends("a.service");
  EXPECT_EQ(listed().size(), 1U);
  tracker_.request("a.service");
  EXPECT_THAT(listed(), ElementsAre("a.service released", "a.service in-flight"));
}

TEST_F(RestartTrackerTest, WithoutAThreadEachRequestFails) {
  restarter_.refusal = Error{EAGAIN, "no thread"};
  EXPECT_FALSE(tracker_.start());
  tracker_.request("a.service");
  EXPECT_THAT(restarter_.units, IsEmpty());
  EXPECT_THAT(listed(), ElementsAre("a.service failed"));
  EXPECT_EQ(tracker_.take_results().front().failure->code, EAGAIN);
}

TEST_F(RestartTrackerTest, OneWhoseResultWasDroppedIsForgotten) {
  tracker_.request("a.service");
  clock_.advance(RestartTracker::kLostAfter);
  EXPECT_THAT(listed(), IsEmpty());
}

}  // namespace
}  // namespace forestall::agent
