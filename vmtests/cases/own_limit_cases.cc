// SPDX-License-Identifier: Apache-2.0
// `ownLimit: slow` on cgroup v2, which the development host does not have: the agent changes
// memory.high temporarily and always restores it. Tests without memory.high are in
// integration/agent_own_limit_test.cc, which runs in these guests too.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <optional>
#include <string>

#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::vm {
namespace {

using test::AgentRun;
using test::Hog;
using test::mounts;

constexpr Duration kOwnLimitPatience = std::chrono::seconds(90);
constexpr Bytes kLimit = mib(192);
constexpr Bytes kMargin = mib(64);
// Where the agent throttles it, and an earlier setting above that.
constexpr Bytes kThrottle = kLimit - kMargin;
constexpr Bytes kBefore = kLimit - mib(16);
constexpr Bytes kPast = kThrottle + mib(8);
// Reaches the limit within two seconds without throttling.
constexpr Bytes kLeakPace = mib(32);

MonotonicTime soon() {
  return SystemClock().now() + kOwnLimitPatience;
}

class OwnLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    if (mounts().v1) GTEST_SKIP() << "not applicable: cgroup v1 has no memory.high";
    scratch_.limit(workload_, kLimit);
    set_high(kBefore);
  }

  [[nodiscard]] std::string config(const std::string& action) const {
    return fmt::format(
        "evictionHard: {{}}\npods: {{enabled: false}}\nrecheckInterval: 200ms\n"
        "ownLimit: {{other: {}, margin: {}Mi}}\nworkloads: [{{cgroup: {}}}]\n",
        action, kMargin.count >> 20, workload_);
  }
  void set_high(Bytes high) const {
    scratch_.write(workload_, "memory.high", std::to_string(high.count));
  }
  [[nodiscard]] std::string high() const { return scratch_.read(workload_, "memory.high"); }
  // Polls for this value; the kernel has no event for a write.
  [[nodiscard]] bool wait_high(Bytes wanted) const {
    const std::string text = std::to_string(wanted.count) + "\n";
    for (const auto end = soon(); SystemClock().now() < end;) {
      if (high() == text) return true;
    }
    return false;
  }
  // A leak that the agent has throttled.
  void slow_down(Hog& leak, AgentRun& agent) const {
    leak.leak(kPast - scratch_.usage(workload_), kLeakPace);
    ASSERT_TRUE(agent.process().wait_for_log("event=own-limit-near", soon()))
        << agent.process().log();
    EXPECT_THAT(agent.process().log(), testing::HasSubstr("slowed=yes"));
    ASSERT_TRUE(wait_high(kThrottle)) << high();
  }
  [[nodiscard]] std::uint64_t oom_kills() const { return scratch_.oom_kills(workload_); }

  test::ScratchCgroup scratch_;
  std::string workload_ = scratch_.child("limited");
};

TEST_F(OwnLimit, SlowedUntilItRecedesAndThenLetGo) {
  const Hog stays(scratch_, workload_, mib(16));
  std::optional<Hog> leak(std::in_place, scratch_, workload_, mib(4));
  AgentRun agent(config("slow"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  EXPECT_TRUE(wait_high(kBefore)) << "nothing is set ahead: " << high();
  slow_down(*leak, agent);
  EXPECT_TRUE(leak->alive());
  leak.reset();
  ASSERT_TRUE(agent.process().wait_for_log("event=own-limit-receded", soon()));
  EXPECT_TRUE(wait_high(kBefore)) << high();
  EXPECT_TRUE(stays.alive());
  EXPECT_EQ(oom_kills(), 0U);
}

TEST_F(OwnLimit, AnAgentThatIsEndedLetsItGo) {
  Hog leak(scratch_, workload_, mib(4));
  AgentRun agent(config("slow"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  slow_down(leak, agent);
  ASSERT_EQ(::kill(agent.process().pid(), SIGTERM), 0);
  const auto status = agent.process().wait_end(soon());
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFEXITED(*status) && WEXITSTATUS(*status) == 0) << *status;
  EXPECT_EQ(high(), std::to_string(kBefore.count) + "\n");
  EXPECT_TRUE(leak.alive());
}

// The limits that were in force are in the run directory, which outlives the agent.
TEST_F(OwnLimit, AnAgentThatIsKilledLetsItGoAtItsNextStart) {
  Hog leak(scratch_, workload_, mib(4));
  AgentRun agent(config("slow"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  slow_down(leak, agent);
  ASSERT_EQ(::kill(agent.process().pid(), SIGKILL), 0);
  ASSERT_TRUE(agent.process().wait_end(soon()));
  EXPECT_EQ(high(), std::to_string(kThrottle.count) + "\n") << "no agent was left to restore it";
  agent.rewrite_config(config("off"));
  const auto next = cli::AgentProcess::start(test::forestall_executable(),
                                             {"--config", agent.directory() / "config.yaml"},
                                             agent.directory().path());
  ASSERT_TRUE(next.ok()) << next.error().text();
  EXPECT_EQ(high(), std::to_string(kBefore.count) + "\n");
}

TEST_F(OwnLimit, WarnSetsNothing) {
  const Hog hog(scratch_, workload_, kPast);
  AgentRun agent(config("warn"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  ASSERT_TRUE(agent.process().wait_for_log("event=own-limit-near", soon()))
      << agent.process().log();
  EXPECT_THAT(agent.process().log(), testing::HasSubstr("slowed=no"));
  EXPECT_EQ(high(), std::to_string(kBefore.count) + "\n");
  EXPECT_TRUE(hog.alive());
}

// By the kernel's count.
TEST_F(OwnLimit, EvictIsAheadOfTheKernel) {
  set_high(kLimit);  // without throttling
  Hog leak(scratch_, workload_, mib(4));
  AgentRun agent(config("evict"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  leak.leak(kPast - scratch_.usage(workload_), mib(2));
  const auto record = agent.wait_kill(kOwnLimitPatience);
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->outcome().victim().path(), workload_);
  EXPECT_TRUE(leak.child().wait_exit());
  EXPECT_EQ(oom_kills(), 0U);
}

}  // namespace
}  // namespace forestall::vm
