// SPDX-License-Identifier: Apache-2.0
// The loop with a ruleset that restarts a unit of a systemd that does not answer.
#include <gtest/gtest.h>

#include "actuators/unit_restarter.h"
#include "core_on_files.h"
#include "support/fake_systemd.h"
#include "support/manual_clock.h"

namespace forestall::agent {
namespace {

using std::chrono::seconds;
using test::FakeSystemd;

// Reads one cgroup that uses more than the ruleset allows, at each evaluation.
class FullCgroup final : public RuleSampler {
 public:
  explicit FullCgroup(const Clock& clock) : clock_(clock) {}
  bool start(const RuleNeeds& needs) override {
    needs_ = needs;
    return true;
  }
  [[nodiscard]] std::optional<Finished> finish() override {
    rulesets::RuleObservation read;
    read.time = clock_.now().time_since_epoch();
    read.cgroups.resize(2);
    read.cgroups[0].path = "/";
    read.cgroups[1].path = "/pods";
    read.cgroups[1].current = mib(200).count;
    return Finished{needs_, read};
  }

 private:
  const Clock& clock_;
  RuleNeeds needs_;
};

class LastRules final : public exports::EvaluationListener {
 public:
  void evaluated(const exports::Evaluation& evaluation) override {
    if (!evaluation.observation.rules) return;
    rulesets = evaluation.decision.rulesets;
    kills = evaluation.observation.kills;
  }
  std::vector<RuleReport> rulesets;
  std::vector<KillProgress> kills;
};

class CoreRestart : public CoreOnFiles {
 protected:
  CoreRestart() : CoreOnFiles{"/pods"} {}

  static Config restarts() {
    rulesets::MemoryAbove usage;
    usage.cgroups = {{{"pods"}}};
    usage.threshold = {false, mib(100).count};
    rulesets::Ruleset ruleset;
    ruleset.name = "r";
    ruleset.groups = {{"full", {{"usage", usage}}}};
    ruleset.actions = {{"restart", rulesets::RestartUnit{"cache.service"}},
                       {"log", rulesets::LogAction{"not restarted"}}};
    Config config;
    config.rules = std::vector{ruleset};
    config.dry_run = false;
    return config;
  }
  void begin(actuators::UnitRestarter& restarter) {
    open(restarts(), clock_);
    start(Parts{.clock = clock_,
                .tree = tree_,
                .observer = *observer_,
                .ladder = *ladder_,
                .log = *log_,
                .evaluation_listeners = {&last_},
                .rules = sampler_,
                .restarter = restarter},
          restarts());
  }
  // One reading of the rulesets, a second after the last one.
  void read() {
    pass(clock_, seconds(1));
    core_->rules_ready();
  }

  test::ManualClock clock_;
  FullCgroup sampler_{clock_};
  LastRules last_;
};

TEST_F(CoreRestart, TheLoopEvaluatesWhileSystemdDoesNotAnswer) {
  const FakeSystemd systemd(FakeSystemd::Answer::answers_nothing);
  actuators::UnitRestarterThread restarter(systemd.address());
  begin(restarter);
  read();
  ASSERT_EQ(last_.rulesets.size(), 1U);
  EXPECT_EQ(last_.rulesets[0].actions.at(0).attempts.at(0).outcome, RuleOutcome::restart_requested);
  read();
  ASSERT_EQ(last_.kills.size(), 1U) << "the restart is listed";
  EXPECT_EQ(last_.kills[0].path, "cache.service");
  EXPECT_EQ(last_.kills[0].state, KillState::in_flight);
  EXPECT_TRUE(last_.rulesets.at(0).paused);
  for (int second = 2; second < 29; ++second) read();
  EXPECT_TRUE(last_.rulesets.at(0).paused);
  read();
  read();
  EXPECT_TRUE(last_.rulesets.at(0).log == std::vector<std::string>{"not restarted"})
      << "the next action follows when the pause is over";
  core_.reset();
}

}  // namespace
}  // namespace forestall::agent
