// SPDX-License-Identifier: Apache-2.0
// `forestall status` with a running agent, with a killed one, and without one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "api/json.h"
#include "forestall/v1/status.pb.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

using testing::HasSubstr;

constexpr Bytes kLimit = mib(192);
constexpr Bytes kThreshold = mib(64);

std::string config_of(const ScratchCgroup& scratch) {
  return fmt::format(
      "evictionHard: {{}}\npods: {{enabled: false}}\nreleaseTimeout: 20s\n"
      "watch: [{{cgroup: {0}, available: {1}Mi}}]\nworkloads: [{{cgroup: {0}/leak, name: leak}}]\n",
      scratch.path(), kThreshold.count >> 20);
}

// Where AgentRun makes its agent keep its lock and socket.
std::string run_directory(AgentRun& agent) {
  return agent.directory() / "";
}

v1::AgentStatus status_of(AgentRun& agent) {
  const Ran ran = run_forestall({"status", "--run-dir", run_directory(agent), "-o", "json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  v1::AgentStatus status;
  const auto read = api::from_json(ran.output, status);
  EXPECT_TRUE(read) << read.error().text() << "\n" << ran.output;
  return status;
}

TEST(AgentStatus, ShowsTheAgentAndItsReadings) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  scratch.child("leak");
  AgentRun agent(config_of(scratch));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const v1::AgentStatus status = status_of(agent);
  EXPECT_EQ(status.pid(), agent.process().pid());
  EXPECT_GT(status.uptime_ns(), 0);
  EXPECT_GE(status.looks(), 1U);
  EXPECT_TRUE(status.has_next_look_in_ns()) << "below 0 when it is overdue";
  EXPECT_EQ(status.config().thresholds_size(), 1);
  ASSERT_EQ(status.thresholds_size(), 1);
  EXPECT_EQ(status.thresholds(0).subject(), scratch.path());
  EXPECT_GT(status.thresholds(0).available(), status.thresholds(0).limit());
  EXPECT_EQ(status.stages_size(), 6);
  EXPECT_EQ(status.drops().log_lines(), 0U);
  struct stat socket {};
  ASSERT_EQ(stat((agent.directory() / "agent.sock").c_str(), &socket), 0);
  EXPECT_EQ(socket.st_mode & 0777, 0600U);
}

TEST(AgentStatus, ShowsTheTimeOfEachStageOfAKill) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  const auto leak = scratch.child("leak");
  Hog hog(scratch, leak, mib(8));
  AgentRun agent(config_of(scratch));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  hog.leak(kLimit - kThreshold + mib(8) - scratch.usage(scratch.path()), mib(2));
  ASSERT_TRUE(agent.wait_kill()) << agent.process().log();
  const v1::AgentStatus status = status_of(agent);
  for (const v1::StageSummary& stage : status.stages()) {
    EXPECT_EQ(stage.count(), 1U) << stage.stage();
    EXPECT_EQ(stage.p99_ns(), stage.max_ns()) << stage.stage();
  }
  bool told = false;
  for (const v1::StatusDecision& each : status.decisions()) {
    if (each.victim() != "leak") continue;
    told = true;
    EXPECT_EQ(each.state(), v1::KillProgress::RELEASED);
    EXPECT_EQ(each.stages_size(), 6);
  }
  EXPECT_TRUE(told);
  const Ran text = run_forestall({"status", "--run-dir", run_directory(agent)});
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_THAT(text.output, HasSubstr("leak"));
  EXPECT_THAT(text.output, HasSubstr("freed"));
  EXPECT_THAT(agent.process().log(), HasSubstr(" wake_us="));
  EXPECT_THAT(agent.process().log(), HasSubstr(" freed_us="));
}

TEST(AgentStatus, ReportsThatNoAgentRuns) {
  const TempTree nowhere;
  const Ran ran = run_forestall({"status", "--run-dir", nowhere / ""});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.errors, HasSubstr("no agent is running"));
}

}  // namespace
}  // namespace forestall::test
