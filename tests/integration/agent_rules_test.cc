// SPDX-License-Identifier: Apache-2.0
// The real agent with rulesets: its own and oomd's, on real cgroups of the test.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/unique_fd.h"
#include "replay/recording_replay.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/file_changes.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::test::agent_rules_test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr Duration kPatience = std::chrono::seconds(60);

MonotonicTime in_time() {
  return SystemClock().now() + kPatience;
}

// Two workloads, of which one becomes too big. No threshold watches them.
class RuleScene {
 public:
  [[nodiscard]] std::string config(const std::string& rulesets) const {
    return "evictionHard: {}\npods: {enabled: false}\nreleaseTimeout: 20s\n" + rulesets;
  }
  [[nodiscard]] std::string ruleset(const std::string& more_actions = "",
                                    const std::string& kill = "") const {
    return fmt::format(
        "rulesets:\n- name: batch\n  pause: 3s\n"
        "  detectors: [{{name: too-big, all: [{{usage: {{cgroups: [{0}/*], above: 64Mi, for: "
        "1s}}}}]}}]\n"
        "  actions: [{1}{{kill: {{cgroups: [{0}/*]{2}}}}}]\n",
        scratch.path(), more_actions, kill);
  }
  void becomes_too_big() const { big.grow(mib(88)); }

  ScratchCgroup scratch;
  std::string small_path = scratch.child("small");
  std::string big_path = scratch.child("big");
  Hog small = Hog(scratch, small_path, mib(24));
  Hog big = Hog(scratch, big_path, mib(8));
};

TEST(AgentRules, KillsWhatARulesetNames) {
  RuleScene scene;
  AgentRun agent(scene.config(scene.ruleset("{log: batch is too big}, ")));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  scene.becomes_too_big();
  const auto record = agent.wait_kill(kPatience);
  ASSERT_TRUE(record) << agent.process().log();
  const v1::Decision& decision = record->decision();
  EXPECT_EQ(decision.reason(), v1::Decision::RULESET);
  EXPECT_EQ(record->outcome().victim().path(), scene.big_path);
  EXPECT_EQ(record->outcome().state(), v1::KillProgress::RELEASED);
  EXPECT_GT(record->outcome().freed_bytes(), mib(64).count);
  ASSERT_TRUE(decision.has_ruleset());
  const v1::RulesetRun& ruleset = decision.rulesets(static_cast<int>(decision.ruleset()));
  EXPECT_EQ(ruleset.name(), "batch");
  EXPECT_EQ(ruleset.group(), "too-big");
  ASSERT_EQ(ruleset.actions_size(), 2);
  EXPECT_EQ(ruleset.actions(1).ranking(0).cgroup(), scene.big_path);
  EXPECT_FALSE(decision.has_driving());
  EXPECT_TRUE(scene.big.child().wait_exit());
  EXPECT_TRUE(scene.small.alive());
  EXPECT_THAT(agent.process().log(), HasSubstr("batch is too big"));
  const Ran status = run_forestall({"status", "--run-dir", agent.directory() / ""});
  EXPECT_THAT(status.output, HasSubstr("1 killed")) << status.errors;
}

TEST(AgentRules, ADryRunKillsNothingAndRecordsTheVictim) {
  RuleScene scene;
  AgentRun agent(scene.config("dryRun: true\n" + scene.ruleset()));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  scene.becomes_too_big();
  const auto record = agent.wait_kill(kPatience);
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_TRUE(record->outcome().dry_run());
  EXPECT_EQ(record->outcome().victim().path(), scene.big_path);
  EXPECT_TRUE(scene.big.alive());
}

TEST(AgentRules, ProtectedWorkloadsAreSparedAndTheNextIsKilled) {
  RuleScene scene;
  AgentRun agent(
      scene.config(fmt::format("workloads: [{{cgroup: {}, protected: true}}]\n", scene.big_path) +
                   scene.ruleset()));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  scene.becomes_too_big();
  const auto record = agent.wait_kill(kPatience);
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->outcome().victim().path(), scene.small_path);
  EXPECT_TRUE(scene.big.alive());
}

// Waits for the end of a process that is no child of this one.
bool is_gone(pid_t pid) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return errno == ESRCH;
  pollfd ends{process.get(), POLLIN, 0};
  return ::poll(&ends, 1, 20'000) > 0;
}

// Prekill hooks of root, in a directory that only root can write to.
class HookScene : public RuleScene {
 public:
  [[nodiscard]] std::string hook(const std::string& lines) const {
    files.write("hook", "#!/bin/sh\n" + lines + "\n");
    std::filesystem::permissions(files / "hook", std::filesystem::perms(0755));
    return fmt::format("prekillHooks: [{{name: dump, program: {}, arguments: [{}]}}]\n",
                       files / "hook", files / "saved");
  }
  [[nodiscard]] std::string with_hook(const std::string& lines, const std::string& time) const {
    std::string rules = ruleset();
    rules.replace(rules.find("  pause: 3s\n"), 0, "  prekillHookTimeout: " + time + "\n");
    return config(hook(lines) + rules);
  }

  const TempTree files;
};

TEST(AgentRules, AHookRunsBeforeTheKillWithTheVictimOnItsInput) {
  const HookScene scene;
  // The victim lives while its hook runs.
  AgentRun agent(scene.with_hook(fmt::format("cat > $1; cat {}/cgroup.procs >> $1; exit 4",
                                             scene.scratch.directory(scene.big_path)),
                                 "30s"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  scene.becomes_too_big();
  const auto record = agent.wait_kill(kPatience);
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->outcome().victim().path(), scene.big_path);
  ASSERT_EQ(record->observation().hooks_size(), 1);
  const v1::HookProgress& hook = record->observation().hooks(0);
  EXPECT_EQ(hook.hook(), "dump");
  EXPECT_EQ(hook.state(), v1::HookProgress::FAILED);
  EXPECT_EQ(hook.exit_code(), 4);
  EXPECT_GT(hook.took_ns(), 0);
  const std::string saved = read_text(scene.files / "saved");
  EXPECT_THAT(saved, HasSubstr(fmt::format("\"victim\":{{\"cgroup\":\"{}\"", scene.big_path)));
  EXPECT_THAT(saved, HasSubstr(fmt::format("\n{}\n", scene.big.pid())));
  EXPECT_THAT(agent.process().log(), HasSubstr("state=failed"));
}

TEST(AgentRules, AHookThatHangsDelaysTheKillUntilItsTimeAndLeavesNoProcess) {
  const HookScene scene;
  AgentRun agent(
      scene.with_hook("setsid sleep 1000 & echo $! > $1; trap '' TERM; sleep 1000", "1s"));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  scene.becomes_too_big();
  const auto record = agent.wait_kill(kPatience);
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->outcome().victim().path(), scene.big_path);
  ASSERT_EQ(record->observation().hooks_size(), 1);
  const v1::HookProgress& hook = record->observation().hooks(0);
  // At its time the kill does not wait for the report that the hook has ended either.
  EXPECT_THAT(hook.state(), AnyOf(v1::HookProgress::TIMED_OUT, v1::HookProgress::RUNNING));
  EXPECT_GE(record->outcome().began_ns() - hook.started_ns(), 900'000'000);
  const auto left = static_cast<pid_t>(std::stol(read_text(scene.files / "saved")));
  EXPECT_TRUE(is_gone(left));
}

TEST(AgentRules, OomdsConfigurationIsRunAndADropInReplacesItsDetectors) {
  RuleScene scene;
  const TempTree files;
  const auto oomd = [&](int megabytes) {
    return fmt::format(
        R"({{"rulesets": [{{"name": "protect", "post_action_delay": "3",
             "drop-in": {{"detectors": true, "disable-on-drop-in": true}},
             "detectors": [["big", {{"name": "memory_above",
               "args": {{"cgroup": "{0}/*", "threshold": "{1}", "duration": "1"}}}}]],
             "actions": [{{"name": "kill_by_memory_size_or_growth",
               "args": {{"cgroup": "{0}/*"}}}}]}}]}})",
        scene.scratch.path().substr(1), megabytes);
  };
  files.write("oomd.json", oomd(100'000));
  files.write("drop/low.json", fmt::format(
                                   R"({{"rulesets": [{{"name": "protect", "detectors": [["low",
                       {{"name": "memory_above", "args": {{"cgroup": "{}/*", "threshold": "64",
                         "duration": "1"}}}}]]}}]}})",
                                   scene.scratch.path().substr(1)));
  AgentRun agent(scene.config(""), {},
                 {"--oomd-config", files / "oomd.json", "--oomd-drop-in-dir", files / "drop"});
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  scene.becomes_too_big();
  const auto record = agent.wait_kill(kPatience);
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->outcome().victim().path(), scene.big_path);
  const v1::Decision& decision = record->decision();
  EXPECT_EQ(decision.rulesets(static_cast<int>(decision.ruleset())).name(), "protect (low.json)");
}

TEST(AgentRules, AReloadWithAMistakeKeepsTheRulesetsInForce) {
  RuleScene scene;
  AgentRun agent(scene.config(scene.ruleset()));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  agent.rewrite_config(scene.config(scene.ruleset("{kill: {cgroups: [/none], by: ioCost}}, ")));
  kill(agent.process().pid(), SIGHUP);
  ASSERT_TRUE(agent.process().wait_for_log("reload-refused", in_time())) << agent.process().log();
  EXPECT_THAT(agent.process().log(), HasSubstr("costs of devices"));
  scene.becomes_too_big();
  const auto record = agent.wait_kill(kPatience);
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->outcome().victim().path(), scene.big_path);
}

constexpr const char* kNeedsV2 =
    "not applicable: cgroup v1 has neither memory.high nor cgroup.freeze; runs in guests with v2";

// Waits until a control file of the big workload has this text.
bool becomes(const RuleScene& scene, const std::string& file, const std::string& wanted) {
  return wait_for_files(scene.scratch.directory(scene.big_path), -1, [&] {
    return scene.scratch.read(scene.big_path, file).starts_with(wanted);
  });
}

std::string only(const RuleScene& scene, const std::string& action) {
  return fmt::format(
      "rulesets:\n- name: slow\n"
      "  detectors: [{{name: too-big, all: [{{usage: {{cgroups: [{0}/*], above: 64Mi}}}}]}}]\n"
      "  actions: [{{{1}}}]\n",
      scene.scratch.path(), action);
}

TEST(AgentRules, AThrottleEndsWithItsRuleset) {
  if (mounts().v1) GTEST_SKIP() << kNeedsV2;
  RuleScene scene;
  AgentRun agent(scene.config(only(
      scene, fmt::format("throttle: {{cgroups: [{}], high: 80Mi, for: 1h}}", scene.big_path))));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  scene.big.grow(mib(72));
  ASSERT_TRUE(becomes(scene, "memory.high", std::to_string(mib(80).count)))
      << agent.process().log();
  EXPECT_THAT(agent.process().log(), HasSubstr("file=memory.high"));
  agent.rewrite_config(scene.config(only(scene, "log: too big")));
  kill(agent.process().pid(), SIGHUP);
  EXPECT_TRUE(becomes(scene, "memory.high", "max")) << "the ruleset is gone";
  EXPECT_TRUE(scene.big.alive());
}

TEST(AgentRules, AFrozenCgroupIsThawedAfterTheAgentWasKilled) {
  if (mounts().v1) GTEST_SKIP() << kNeedsV2;
  RuleScene scene;
  AgentRun agent(
      scene.config(only(scene, fmt::format("freeze: {{cgroups: [{}], for: 1h}}", scene.big_path))));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  scene.becomes_too_big();
  ASSERT_TRUE(becomes(scene, "cgroup.freeze", "1")) << agent.process().log();
  kill(agent.process().pid(), SIGKILL);
  ASSERT_TRUE(agent.process().wait_end(in_time()));
  EXPECT_EQ(scene.scratch.read(scene.big_path, "cgroup.freeze").at(0), '1');
  agent.rewrite_config(scene.config(""));
  auto next = cli::AgentProcess::start(forestall_executable(),
                                       {"--config", agent.directory() / "config.yaml"},
                                       agent.directory().path());
  ASSERT_TRUE(next) << next.error().text();
  EXPECT_TRUE(becomes(scene, "cgroup.freeze", "0")) << next->log();
  EXPECT_TRUE(scene.big.alive());
}

TEST(AgentRules, ProtectedWorkloadsAreNotFrozen) {
  if (mounts().v1) GTEST_SKIP() << kNeedsV2;
  RuleScene scene;
  AgentRun agent(scene.config(
      fmt::format("workloads: [{{cgroup: {}, protected: true}}]\n", scene.big_path) +
      only(scene, fmt::format("freeze: {{cgroups: [{}/*], for: 1h}}", scene.scratch.path()))));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  scene.becomes_too_big();
  ASSERT_TRUE(agent.process().wait_for_log("outcome=protected", in_time()))
      << agent.process().log();
  EXPECT_TRUE(wait_for_files(scene.scratch.directory(scene.small_path), -1, [&] {
    return scene.scratch.read(scene.small_path, "cgroup.freeze").starts_with("1");
  }));
  EXPECT_EQ(scene.scratch.read(scene.big_path, "cgroup.freeze").at(0), '0');
}

// The memory is anonymous: without swap the kernel frees nothing of it.
TEST(AgentRules, ReclaimIsRequestedAndItsResultLogged) {
  if (mounts().v1) GTEST_SKIP() << kNeedsV2;
  RuleScene scene;
  AgentRun agent(scene.config(
      only(scene, fmt::format("reclaim: {{cgroups: [{}], amount: 16Mi}}", scene.big_path))));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  scene.becomes_too_big();
  EXPECT_TRUE(agent.process().wait_for_log("wanted_bytes=16777216", in_time()))
      << agent.process().log();
  EXPECT_TRUE(scene.big.alive());
}

TEST(AgentRules, OnV1SettingsHaveNoEffectAndTheLogStatesThat) {
  if (!mounts().v1) GTEST_SKIP() << "not applicable: this host has cgroup v2; runs in 6.1 v1";
  RuleScene scene;
  AgentRun agent(
      scene.config(only(scene, fmt::format("freeze: {{cgroups: [{}], for: 1h}}", scene.big_path))));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  EXPECT_TRUE(agent.process().wait_for_log("have no effect", in_time())) << agent.process().log();
}

TEST(AgentRules, PressureOfACgroupIsAReason) {
  if (mounts().v1) {
    GTEST_SKIP() << "not applicable: cgroup v1 has no pressure of cgroups; runs in guests with v2";
  }
  RuleScene scene;
  scene.scratch.write(scene.big_path, "memory.high", std::to_string(mib(32).count));
  AgentRun agent(scene.config(fmt::format(
      "rulesets:\n- name: stalls\n  detectors: [{{name: memory, all: [{{pressure: {{cgroups: "
      "[{0}/*], "
      "above: 10%, for: 1s}}}}]}}]\n  actions: [{{kill: {{cgroups: [{0}/*], by: pressure}}}}]\n",
      scene.scratch.path())));
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  scene.big.leak(mib(64), mib(64));
  const auto record = agent.wait_kill(kPatience);
  ASSERT_TRUE(record) << agent.process().log();
  EXPECT_EQ(record->outcome().victim().path(), scene.big_path);
  EXPECT_EQ(record->decision().rulesets(0).actions(0).ranking(0).key(0).name(), "pressure");
  EXPECT_TRUE(scene.small.alive());
}

TEST(AgentRules, ReplayOfTheRecordingGivesTheSameDecisions) {
  RuleScene scene;
  const TempTree files;
  {
    AgentRun agent(scene.config("recording: {directory: " + files / "ring" + ", maxSize: 8Mi}\n" +
                                scene.ruleset()));
    ASSERT_FALSE(agent.failure()) << agent.failure()->text();
    scene.becomes_too_big();
    ASSERT_TRUE(agent.wait_kill(kPatience)) << agent.process().log();
  }
  auto input = replay::RecordingInput::open(files / "ring");
  ASSERT_TRUE(input.ok()) << input.error().text();
  replay::RecordingReplay replay(std::move(*input), {});
  std::size_t kills = 0;
  while (auto step = replay.next().value()) {
    kills += step->decision.reason == Reason::ruleset ? 1U : 0U;
  }
  EXPECT_GT(replay.same(), 0U);
  EXPECT_EQ(replay.different(), 0U);
  EXPECT_EQ(replay.states_different(), 0U);
  EXPECT_EQ(kills, 1U);
}

}  // namespace
}  // namespace forestall::test::agent_rules_test
