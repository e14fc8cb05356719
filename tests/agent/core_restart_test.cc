// SPDX-License-Identifier: Apache-2.0
// The loop with a ruleset that restarts a unit of a systemd that does not answer.
#include <gtest/gtest.h>
#include <unistd.h>

#include "actuators/unit_restarter.h"
#include "core_on_files.h"
#include "support/child.h"
#include "support/fake_systemd.h"
#include "support/manual_clock.h"

namespace forestall::agent {
namespace {

using std::chrono::milliseconds;
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
    return Finished{needs_, read, {}};
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

// Keeps its orders.
class OrderedWatchdog final : public LoopWatchdog {
 public:
  void post(std::vector<Watchdog::Order> orders, MonotonicTime) override {
    posted = std::move(orders);
  }
  void withdraw() override { posted.clear(); }
  std::vector<Watchdog::Order> posted;
};

class LastRanking final : public exports::EvaluationListener {
 public:
  void evaluated(const exports::Evaluation&) override {}
  void pre_ranked(std::span<const NextVictim> next_victims) override {
    next.assign(next_victims.begin(), next_victims.end());
  }
  std::vector<NextVictim> next;
};

class EndlessRestarts final : public actuators::UnitRestarter {
 public:
  Result<void> start() override { return {}; }
};

// A cgroup with one workload is near its limit while the ruleset restarts its unit.
class CoreRestartNearALimit : public CoreRestart {
 protected:
  CoreRestartNearALimit() {
    config_.pods = false;
    config_.thresholds = {own_limit("/all", mib(64))};
    config_.workloads.emplace_back().cgroup = "/all/leak";
    files_.write("cgroup/all/memory.max", std::to_string(mib(256).count) + "\n");
    for (const std::string path : {"cgroup/all", "cgroup/all/leak"}) {
      const bool is_leak = path.ends_with("leak");
      files_.write(path + "/cgroup.procs", is_leak ? std::to_string(child_.pid()) + "\n" : "");
      files_.write(path + "/memory.stat", "inactive_file 0\n");
      files_.write(path + "/memory.current", std::to_string(mib(180).count) + "\n");
    }
    actuators::LadderOptions options;
    options.usable.set(static_cast<std::size_t>(Feature::pidfd));
    open(config_, clock_, options);
    start(Parts{.clock = clock_,
                .tree = tree_,
                .observer = *observer_,
                .ladder = *ladder_,
                .log = *log_,
                .evaluation_listeners = {&ranking_},
                .watchdog = watchdog_,
                .rules = sampler_,
                .restarter = restarter_},
          config_);
    pass(clock_, seconds(5));
  }
  void expect_held_back_by(std::optional<Reason> reason) {
    ASSERT_EQ(ranking_.next.size(), 1U);
    EXPECT_EQ(ranking_.next[0].held_back, reason);
  }

  test::Child child_{[] {
    for (;;) pause();
    return 0;
  }};
  Config config_ = restarts();
  OrderedWatchdog watchdog_;
  LastRanking ranking_;
  EndlessRestarts restarter_;
};

TEST_F(CoreRestartNearALimit, ARestartCountsForTheOrdersOfTheWatchdog) {
  ASSERT_FALSE(watchdog_.posted.empty());
  expect_held_back_by(std::nullopt);
  config_.kill_limit.node = 1;
  core_->reload(config_);
  pass(clock_, seconds(5));
  ASSERT_FALSE(watchdog_.posted.empty());
  core_->rules_ready();
  EXPECT_TRUE(watchdog_.posted.empty()) << "the restart was the one kill that killLimit allows";
  pass(clock_, milliseconds(10));
  expect_held_back_by(Reason::kill_limit_reached);
}

}  // namespace
}  // namespace forestall::agent
