// SPDX-License-Identifier: Apache-2.0
// `forestall status` with a running agent, with a killed one, and without one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "forestall/v1/status.pb.h"
#include "messages/json.h"
#include "model/workload_example.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test::agent_status_test {
namespace {

using testing::HasSubstr;
using testing::Not;

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
  const auto read = messages::from_json(ran.output, status);
  EXPECT_TRUE(read) << read.error().text() << "\n" << ran.output;
  return status;
}

// vmtests/cases/memory_qos_cases.cc has the values of cgroup v2.
TEST(AgentStatus, ShowsWhyMemoryQosHasNoValues) {
  if (!mounts().v1)
    GTEST_SKIP() << "not applicable: cgroup v2 has its files; hosts with cgroup v1 run this";
  ScratchCgroup scratch;
  AgentRun agent(config_of(scratch) + "memoryQoS: observe\nmemoryQoSCgroups: [{cgroup: " +
                 scratch.path() + ", min: 1Mi}]\n");
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  v1::MemoryQosStatus qos;
  for (const auto end = SystemClock().now() + kPatience; SystemClock().now() < end;) {
    qos = status_of(agent).memory_qos();
    if (!qos.problem().empty()) break;
  }
  EXPECT_EQ(qos.mode(), "observe");
  EXPECT_THAT(qos.problem(), testing::HasSubstr("cgroup v1 has no memory.min"));
  EXPECT_EQ(qos.values_size(), 0);
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
  EXPECT_GE(status.evaluations(), 1U);
  EXPECT_TRUE(status.has_next_evaluation_in_ns()) << "below 0 when it is overdue";
  EXPECT_EQ(status.config().thresholds_size(), 1);
  ASSERT_EQ(status.thresholds_size(), 1);
  EXPECT_EQ(status.thresholds(0).subject(), scratch.path());
  EXPECT_GT(status.thresholds(0).available(), status.thresholds(0).limit());
  EXPECT_EQ(status.stages_size(), 7);
  EXPECT_EQ(status.drops().log_lines(), 0U);
  struct stat socket {};
  ASSERT_EQ(stat((agent.directory() / "forestall.sock").c_str(), &socket), 0);
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
  bool reported = false;
  for (const v1::StatusDecision& each : status.decisions()) {
    if (each.victim() != "leak") continue;
    reported = true;
    EXPECT_EQ(each.state(), v1::KillProgress::RELEASED);
    EXPECT_EQ(each.stages_size(), 7);
  }
  EXPECT_TRUE(reported);
  const Ran text = run_forestall({"status", "--run-dir", run_directory(agent)});
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_THAT(text.output, HasSubstr("leak"));
  EXPECT_THAT(text.output, HasSubstr("freed"));
  EXPECT_TRUE(agent.process().wait_for_log(" wake_us=", SystemClock().now() + kPatience));
  EXPECT_TRUE(agent.process().wait_for_log(" freed_us=", SystemClock().now() + kPatience));
}

// The numbers of the status are those of the message at the agent's end, and a dry run shows no
// kill in flight.
TEST(AgentStatus, CountsWhatTheStopMessageCounts) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  const auto leak = scratch.child("leak");
  Hog hog(scratch, leak, mib(8));
  AgentRun agent("dryRun: true\n" + config_of(scratch));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  hog.leak(kLimit - kThreshold + mib(8) - scratch.usage(scratch.path()), mib(2));
  ASSERT_TRUE(agent.wait_kill()) << agent.process().log();
  const v1::AgentStatus status = status_of(agent);
  bool listed = false;
  for (const v1::StatusDecision& each : status.decisions()) {
    if (each.victim() != "leak") continue;
    listed = true;
    EXPECT_TRUE(each.dry_run());
    EXPECT_FALSE(each.has_state());
  }
  EXPECT_TRUE(listed);
  EXPECT_EQ(status.kills(), 0U);
  EXPECT_EQ(status.dry_run_kills(), 1U);
  // The decision after the kill: its memory counts as released, so the threshold is not met.
  const MonotonicTime give_up = SystemClock().now() + kPatience;
  const std::string left_over = "next: none, because every candidate is protected, empty or alre";
  Ran text;
  do {
    text = run_forestall({"status", "--run-dir", run_directory(agent)});
  } while (text.output.find(left_over) == std::string::npos && SystemClock().now() < give_up);
  EXPECT_THAT(text.output, HasSubstr(left_over));
  EXPECT_THAT(text.output,
              testing::ContainsRegex("cgroupMemory.available .* -[0-9.]+ [KM]iB +releas"));
  EXPECT_THAT(text.output, HasSubstr("dry run, not signalled"));
  EXPECT_THAT(text.output, HasSubstr("kills: 0, in dry runs: "));
  EXPECT_THAT(text.output, testing::Not(HasSubstr("in-flight")));
  ASSERT_EQ(kill(agent.process().pid(), SIGTERM), 0);
  const std::string stop = "event=stop evaluations=";
  ASSERT_TRUE(agent.process().wait_for_log(stop, SystemClock().now() + kPatience));
  const std::string log = agent.process().log();
  EXPECT_THAT(log, HasSubstr("event=loop stretches="));
  const auto counted = std::stoull(log.substr(log.find(stop) + stop.size()));
  EXPECT_GE(counted, status.evaluations());
  EXPECT_LE(counted, status.evaluations() + 1000);
  EXPECT_THAT(log, HasSubstr(" kills=0 dry_run_kills="));
}

// Status, stop message, and recording of one run: the same evaluations.
TEST(AgentStatus, CountsTheEvaluationsThatAReplayRepeats) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  Hog hog(scratch, scratch.child("leak"), mib(8));
  const TempTree tree;
  const std::string ring = tree / "ring";
  AgentRun agent("recording: {directory: " + ring + ", maxSize: 8Mi}\n" + config_of(scratch));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  hog.leak(kLimit - kThreshold + mib(8) - scratch.usage(scratch.path()), mib(2));
  ASSERT_TRUE(agent.wait_kill()) << agent.process().log();
  ASSERT_EQ(kill(agent.process().pid(), SIGTERM), 0);
  const std::string stop = "event=stop evaluations=";
  ASSERT_TRUE(agent.process().wait_for_log(stop, SystemClock().now() + kPatience));
  ASSERT_TRUE(agent.process().wait_for_log("event=recording", SystemClock().now() + kPatience));
  const std::string log = agent.process().log();
  const auto counted = std::stoull(log.substr(log.find(stop) + stop.size()));
  const Ran replayed = run_forestall({"replay", ring});
  EXPECT_THAT(replayed.output, HasSubstr(fmt::format("\nobservations: {} over ", counted)));
}

TEST(AgentStatus, ShowsHeadroomAndTheNextVictimNearAThreshold) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  const Hog hog(scratch, scratch.child("leak"), mib(120));
  AgentRun agent(config_of(scratch));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const MonotonicTime give_up = SystemClock().now() + kPatience;
  v1::AgentStatus status = status_of(agent);
  const auto ranked = [&] {
    return status.next_victims_size() == 1 && status.next_victims(0).has_candidate();
  };
  while (!ranked() && SystemClock().now() < give_up) status = status_of(agent);
  ASSERT_TRUE(ranked());
  EXPECT_EQ(status.next_victims(0).subject(), scratch.path());
  EXPECT_EQ(status.next_victims(0).candidate().sample().workload().name(), "leak");
  ASSERT_EQ(status.distances_size(), 1);
  EXPECT_EQ(status.distances(0).headroom(),
            status.thresholds(0).available() - status.thresholds(0).limit());
  const Ran text = run_forestall({"status", "--run-dir", run_directory(agent)});
  EXPECT_THAT(text.output, HasSubstr("\nnext: leak, because it uses 1")) << text.output;
  EXPECT_THAT(text.output, HasSubstr(" without a request\n"));
  const auto table = text.output.find("\n  signal ");
  ASSERT_NE(table, std::string::npos);
  EXPECT_LE(text.output.find('\n', text.output.find('\n', table + 1) + 1) -
                text.output.find('\n', table + 1),
            81U)
      << text.output;
}

// "next" is no promise: at a watched cgroup a workload within its request is spared at first.
TEST(AgentStatus, ShowsWhyTheNextVictimIsSpared) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  const Hog hog(scratch, scratch.child("calm"), mib(120));
  AgentRun agent(fmt::format(
      "evictionHard: {{}}\npods: {{enabled: false}}\nwatch: [{{cgroup: {0}, available: {1}Mi}}]\n"
      "workloads: [{{cgroup: {0}/*, memoryRequest: 1Gi}}]\n",
      scratch.path(), kThreshold.count >> 20));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const MonotonicTime give_up = SystemClock().now() + kPatience;
  v1::AgentStatus status = status_of(agent);
  const auto held = [&] {
    return status.next_victims_size() == 1 && status.next_victims(0).has_held_back();
  };
  while (!held() && SystemClock().now() < give_up) status = status_of(agent);
  ASSERT_TRUE(held());
  EXPECT_EQ(status.next_victims(0).held_back(), v1::Decision::WITHIN_REQUESTS);
  EXPECT_FALSE(status.thresholds(0).met()) << "known before the crossing";
  const Ran text = run_forestall({"status", "--run-dir", run_directory(agent)});
  EXPECT_THAT(text.output, HasSubstr("\n  a kill is held back: within-requests\n"));
}

// A threshold on own limits has values only while a workload is near its limit.
TEST(AgentStatus, ListsThresholdsOnOwnLimits) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  scratch.child("leak");
  AgentRun agent(config_of(scratch) + "ownLimit: {other: warn, margin: 5%}\n");
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const Ran text = run_forestall({"status", "--run-dir", run_directory(agent)});
  EXPECT_THAT(text.output, testing::ContainsRegex("cgroupMemory.available +ownLimit other +- +5%"
                                                  " +- +no workload is near its own limit"));
}

TEST(AgentStatus, ReportsThatNothingMayBeKilledAndWhatChangesIt) {
  AgentRun agent("pods: {enabled: false}\n");
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const MonotonicTime soon = SystemClock().now() + kPatience;
  EXPECT_TRUE(agent.process().wait_for_log("event=no-candidates protected=0 problem=", soon));
  EXPECT_TRUE(agent.process().wait_for_log("event=example line=workloads:", soon));
  (void)status_of(agent);  // it has evaluated
  const Ran text = run_forestall({"status", "--run-dir", run_directory(agent)});
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_THAT(text.output, HasSubstr("guards no workload"));
  EXPECT_THAT(text.output, HasSubstr("\nworkloads:\n  - {cgroup: /user.slice/user-*.slice}\n"));
}

TEST(AgentStatus, TheLinesThatChangeItCanBePastedFromTheLog) {
  AgentRun agent("pods: {enabled: false}\n", {}, {"--log-format", "text"});
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const MonotonicTime soon = SystemClock().now() + kPatience;
  EXPECT_TRUE(agent.process().wait_for_log("NAME.service}", soon));
  std::string lines;
  for (const std::string_view each : kWorkloadExample) lines += "\n" + std::string(each);
  EXPECT_THAT(agent.process().log(),
              HasSubstr("; add lines such as these to the configuration:" + lines + "\n"));
  EXPECT_THAT(agent.process().log(), Not(HasSubstr("example")));
}

TEST(AgentStatus, ReportsNothingOfTheKindWithACandidate) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), kLimit);
  scratch.child("leak");
  AgentRun agent(config_of(scratch));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  EXPECT_THAT(agent.process().log(), Not(HasSubstr("event=no-candidates")));
  const Ran text = run_forestall({"status", "--run-dir", run_directory(agent)});
  EXPECT_THAT(text.output, Not(HasSubstr("guards no workload")));
}

TEST(AgentStatus, ReportsThatNoAgentRuns) {
  const TempTree nowhere;
  const Ran ran = run_forestall({"status", "--run-dir", nowhere / ""});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.errors, HasSubstr("no agent listens at "));
}

}  // namespace
}  // namespace forestall::test::agent_status_test
