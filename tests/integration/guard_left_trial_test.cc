// SPDX-License-Identifier: Apache-2.0
// The agent ends before memory runs short: by kill -9, or by SIGTERM for an upgrade. Its guard
// still kills the right process before the kernel's OOM killer acts, and the next agent records it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "guard_trial.h"
#include "scratch_bpffs.h"
#include "support/agent_run.h"
#include "support/child.h"

namespace forestall::test::guard_trial {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kByGrowth = "ranking: kubelet+growth\n";

class GuardLeftTrial : public ::testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<AgentRun> start(const std::string& more = "") const {
    auto agent = std::make_unique<AgentRun>(
        node_.config("none", kByGrowth + more), std::vector<std::string>{},
        std::vector<std::string>{"--keep-guard", bpffs_.pins()});
    if (agent->failure()) throw std::runtime_error(agent->failure()->text());
    return agent;
  }
  static bool stands(AgentRun& agent) {
    return agent.process().wait_for_log("what=standing", SystemClock().now() + kPatience);
  }
  // Starts an agent, and ends it once it has a standing list.
  void leave_a_guard(int signal) {
    const auto agent = start();
    ASSERT_TRUE(stands(*agent)) << agent->process().log();
    end(*agent, signal);
  }
  static void end(AgentRun& agent, int signal) {
    ASSERT_EQ(::kill(agent.process().pid(), signal), 0);
    ASSERT_TRUE(agent.process().wait_end(SystemClock().now() + kPatience));
  }
  // Fills the node from `leak_` without an agent that runs.
  void expect_only_the_leak_dies() {
    leak_.leak(kCritical - kKept - mib(32), kPace);
    EXPECT_TRUE(was_killed(leak_));
    EXPECT_TRUE(large_.alive() && keep_.alive());
    EXPECT_EQ(node_.oom_kills(), 0U);
  }
  static void expect_recorded(AgentRun& agent) {
    const auto record = agent.wait_record([](const v1::Record& each) {
      return each.has_outcome() && each.decision().reason() == v1::Decision::GUARD_SHOT;
    });
    ASSERT_TRUE(record) << agent.process().log();
    EXPECT_EQ(record->outcome().victim().name(), "leak");
    EXPECT_EQ(record->outcome().state(), v1::KillProgress::RELEASED);
    EXPECT_EQ(count(agent.process().log(), "what=killed"), 1U) << agent.process().log();
  }

  const Node node_;
  const ScratchBpffs bpffs_;
  const Hog keep_{node_.scratch, node_.path("keep"), kKept};
  const Hog large_{node_.scratch, node_.path("large"), mib(24)};
  Hog leak_{node_.scratch, node_.path("leak"), mib(8)};
};

TEST_F(GuardLeftTrial, TheLeakerAfterTheAgentWasKilled) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  leave_a_guard(SIGKILL);
  expect_only_the_leak_dies();
  const auto next = start();
  expect_recorded(*next);
  EXPECT_THAT(next->process().log(), HasSubstr("agent=former"));
  ASSERT_TRUE(next->process().wait_for_log("what=took-over", SystemClock().now() + kPatience));
  EXPECT_THAT(bpffs_.names(), Each(Not(StartsWith("guard-1-"))));
}

TEST_F(GuardLeftTrial, TheLeakerBetweenTwoAgents) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  leave_a_guard(SIGTERM);
  expect_only_the_leak_dies();
  const auto next = start();
  expect_recorded(*next);
}

// The next agent's guard acts in its place, and only that.
TEST_F(GuardLeftTrial, TheLeakerAfterTheNextAgentTookOver) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  leave_a_guard(SIGTERM);
  const auto next = start();
  ASSERT_TRUE(next->process().wait_for_log("what=took-over", SystemClock().now() + kPatience))
      << next->process().log();
  ASSERT_TRUE(stands(*next));
  EXPECT_THAT(bpffs_.names(), Each(Not(StartsWith("guard-1-"))));
  EXPECT_THAT(bpffs_.names(), Contains(StartsWith("guard-2-")));
  end(*next, SIGKILL);
  expect_only_the_leak_dies();
  const auto last = start();
  expect_recorded(*last);
}

TEST_F(GuardLeftTrial, AnAgentWithoutTheGuardRemovesTheFormerOne) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  leave_a_guard(SIGKILL);
  EXPECT_THAT(bpffs_.names(), Not(IsEmpty()));
  const std::string config = node_.config("none", kByGrowth);
  std::string off = config;
  off.replace(off.find("guard: on"), 9, "guard: off");
  AgentRun next(off, {}, {"--keep-guard", bpffs_.pins()});
  ASSERT_FALSE(next.failure()) << next.failure()->text();
  EXPECT_THAT(bpffs_.names(), IsEmpty());
}

TEST_F(GuardLeftTrial, ADryRunEndsTheFormerGuard) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  leave_a_guard(SIGKILL);
  const auto next = start("dryRun: true\n");
  ASSERT_TRUE(next->process().wait_for_log("what=took-over", SystemClock().now() + kPatience))
      << next->process().log();
  EXPECT_THAT(bpffs_.names(), Each(Not(StartsWith("guard-1-"))));
}

TEST_F(GuardLeftTrial, ADirectoryThatOthersMayWriteIsLeftAlone) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  ASSERT_EQ(::chmod(bpffs_.pins().c_str(), 0777), 0);
  const auto agent = start();
  ASSERT_TRUE(stands(*agent)) << agent->process().log();
  EXPECT_THAT(agent->process().log(), HasSubstr("has mode 0777: other users can write to it"));
  EXPECT_THAT(bpffs_.names(), IsEmpty());
}

TEST_F(GuardLeftTrial, DoctorListsWhatIsLeft) {
  ASSERT_TRUE(can_guard()) << missing_feature("guard").value_or("");
  leave_a_guard(SIGKILL);
  const Ran doctor = run_forestall({"doctor", "--keep-guard", bpffs_.pins(), "--output", "text"});
  EXPECT_THAT(doctor.output, HasSubstr("guard 1 has a standing list for "));
}

}  // namespace
}  // namespace forestall::test::guard_trial
