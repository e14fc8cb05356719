// SPDX-License-Identifier: Apache-2.0
// What of the decisions of rulesets is carried out and logged.
#include "agent/rule_effects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/rule_observation.h"
#include "model/rule_state.h"

namespace forestall::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kRuleCgroup = 7;

// Keeps what it is to do.
class RecordedSettings final : public actuators::RuleSettings {
 public:
  Result<void> start() override {
    ++starts;
    return refusal ? Result<void>(*refusal) : Result<void>();
  }
  void apply(std::vector<RuleSetting> wanted) override { applied = std::move(wanted); }
  void reclaim(std::vector<RuleReclaim> wanted) override { reclaims = std::move(wanted); }
  void cancel_reclaims() override { ++cancels; }
  std::vector<actuators::RuleSettingResult> take_results() override {
    return std::exchange(results, {});
  }
  std::size_t not_undone() const override { return failed_undos; }

  int starts = 0;
  int cancels = 0;
  std::optional<Error> refusal;
  std::vector<RuleSetting> applied;
  std::vector<RuleReclaim> reclaims;
  std::vector<actuators::RuleSettingResult> results;
  std::size_t failed_undos = 0;
};

class RecordedRestarts final : public actuators::UnitRestarter {
 public:
  Result<void> start() override {
    ++starts;
    return {};
  }
  void restart(const std::string& unit) override { units.push_back(unit); }
  void cancel() override { units.clear(); }
  std::vector<actuators::UnitRestartResult> take_results() override {
    return std::exchange(results, {});
  }

  int starts = 0;
  std::vector<std::string> units;
  std::vector<actuators::UnitRestartResult> results;
};

class RecordedHooks final : public actuators::HookRunner {
 public:
  Result<void> start() override {
    ++starts;
    return {};
  }
  void run(actuators::HookRequest request) override { requests.push_back(std::move(request)); }
  void cancel() override { ++cancels; }
  void cancel_runs(const std::vector<std::uint64_t>& runs) override { cancelled = runs; }
  std::vector<actuators::HookResult> take_results() override { return std::exchange(results, {}); }

  int starts = 0;
  int cancels = 0;
  std::vector<std::uint64_t> cancelled;
  std::vector<actuators::HookRequest> requests;
  std::vector<actuators::HookResult> results;
};

class RuleEffectsTest : public ::testing::Test {
 protected:
  RuleEffectsTest() {
    rulesets::Ruleset ruleset;
    ruleset.name = "batch";
    ruleset.actions = {{"freeze", rulesets::Freeze()}, {"reclaim", rulesets::ReclaimMemory()}};
    config_.rules = std::vector{ruleset};
    config_.dry_run = false;

    rulesets::RuleState state;
    state.rulesets[1].actions.resize(2);
    state.rulesets[1].actions[0].held[kRuleCgroup] = {"/a", 0, 1, std::chrono::seconds(9)};
    state_.rules = state;

    rulesets::RuleObservation observed;
    observed.cgroups.resize(1);
    observed.cgroups[0].path = "/a";
    observed.cgroups[0].id = kRuleCgroup;
    record_.observation.rules = observed;
    attempt({"/a", RuleOutcome::written, "memory.reclaim", 4096});
  }
  void attempt(const RuleAttempt& attempt) {
    RuleReport report;
    report.name = "batch";
    report.group = "big";
    RuleActionReport& action = report.actions.emplace_back();
    action.name = "act";
    action.attempts = {attempt};
    record_.decision.rulesets = {report};
  }
  // Returns what it logs.
  std::string evaluate(int times = 1) {
    testing::internal::CaptureStderr();
    log_.emplace(exports::Log::Stream::standard_error, true, exports::LogLevel::info);
    RuleEffects effects({*log_, counts_, settings_, restarts_, hooks_});
    for (int i = 0; i < times; ++i) effects.evaluated(config_, state_, record_);
    return logged();
  }
  std::string configure() {
    testing::internal::CaptureStderr();
    log_.emplace(exports::Log::Stream::standard_error, true, exports::LogLevel::info);
    RuleEffects({*log_, counts_, settings_, restarts_, hooks_}).configured(config_);
    return logged();
  }
  std::string logged() {
    log_.reset();  // its destructor writes all of it
    return testing::internal::GetCapturedStderr();
  }

  Config config_;
  PolicyState state_;
  Record record_;
  RecordedSettings settings_;
  RecordedRestarts restarter_;
  const SystemClock clock_;
  RestartTracker restarts_{restarter_, clock_};
  RecordedHooks runner_;
  HookTracker hooks_{runner_, clock_};
  exports::LoopCounts counts_;
  std::optional<exports::Log> log_;
};

TEST_F(RuleEffectsTest, SetsWhatTheStateHoldsAndReclaimsWhatWasDecided) {
  evaluate();
  EXPECT_THAT(settings_.applied, ElementsAre(RuleSetting{RuleSetting::Kind::freeze,
                                                         CgroupId{kRuleCgroup},
                                                         "/a",
                                                         {},
                                                         MonotonicTime(std::chrono::seconds(9))}));
  EXPECT_THAT(settings_.reclaims,
              ElementsAre(RuleReclaim{CgroupId{kRuleCgroup}, "/a", Bytes{4096}, "batch"}));
}

TEST_F(RuleEffectsTest, AProactiveReclaimIsBoundedByWhatWasReadAndByTime) {
  rulesets::RuleObservation observed = *record_.observation.rules;
  observed.cgroups[0].current = 40960;
  observed.time = std::chrono::seconds(50);
  record_.observation.rules = observed;
  record_.decision.rulesets[0].actions[0].name = rulesets::kProactiveReclaim;
  const std::string text = evaluate(3);
  ASSERT_EQ(settings_.reclaims.size(), 1U);
  EXPECT_TRUE(settings_.reclaims[0].proactive);
  EXPECT_EQ(settings_.reclaims[0].leave, Bytes{40960 - 4096});
  EXPECT_EQ(settings_.reclaims[0].until, MonotonicTime(std::chrono::seconds(52)));
  EXPECT_THAT(text, HasSubstr("outcome=written bytes=4096"));
  EXPECT_EQ(text.find("bytes=4096"), text.rfind("bytes=4096")) << "the first one only\n" << text;
}

TEST_F(RuleEffectsTest, ABackOffIsCountedAndLoggedOnce) {
  attempt({"/a", RuleOutcome::backed_off, "memory.reclaim"});
  record_.decision.rulesets[0].actions[0].name = rulesets::kProactiveReclaim;
  const std::string text = evaluate(3);
  EXPECT_THAT(text, HasSubstr("outcome=backed-off"));
  EXPECT_EQ(text.find("backed-off"), text.rfind("backed-off")) << text;
  ASSERT_EQ(counts_.reclaims.all().size(), 1U);
  EXPECT_EQ(counts_.reclaims.all()[0].back_offs, 3U);
  EXPECT_THAT(settings_.reclaims, IsEmpty());
}

TEST_F(RuleEffectsTest, AProactiveReclaimIsCountedAndOnlyItsFirstFailureLogged) {
  actuators::RuleSettingResult result;
  result.path = "/a";
  result.what = "memory.reclaim";
  result.ruleset = "reclaim:a";
  result.proactive = true;
  result.reclaimed = Bytes{4096};
  record_.decision.rulesets.clear();
  settings_.results = {result, result};
  EXPECT_EQ(evaluate(), "");
  result.failure = Error{EIO, "write /a/memory.reclaim"};
  result.reclaimed = Bytes{};
  settings_.results = {result, result};
  const std::string text = evaluate();
  EXPECT_THAT(text, HasSubstr("write /a/memory.reclaim"));
  EXPECT_EQ(text.find("write /a"), text.rfind("write /a")) << text;
  EXPECT_THAT(counts_.reclaims.all(), ElementsAre(exports::RulesetReclaimCounts{
                                          "reclaim:a", "/a", 4, Bytes{8192}, 2, 0, 0}));
}

TEST_F(RuleEffectsTest, AReclaimThatWasDroppedIsCountedAndLoggedOnce) {
  actuators::RuleSettingResult result;
  result.path = "/a";
  result.what = "memory.reclaim";
  result.ruleset = "reclaim:a";
  result.proactive = true;
  result.dropped = true;
  record_.decision.rulesets.clear();
  settings_.results = {result, result};
  const std::string text = evaluate();
  EXPECT_THAT(text, HasSubstr("ruleset=reclaim:a cgroup=/a file=memory.reclaim dropped="));
  EXPECT_EQ(text.find("dropped="), text.rfind("dropped=")) << text;
  ASSERT_EQ(counts_.reclaims.all().size(), 1U);
  EXPECT_EQ(counts_.reclaims.all()[0].dropped, 2U);
  EXPECT_EQ(counts_.reclaims.all()[0].writes, 0U) << "nothing was written";
}

TEST_F(RuleEffectsTest, OfManyCgroupsProactiveReclaimIsNotLoggedAnew) {
  RuleActionReport& action = record_.decision.rulesets[0].actions[0];
  action.name = rulesets::kProactiveReclaim;
  testing::internal::CaptureStderr();
  log_.emplace(exports::Log::Stream::standard_error, true, exports::LogLevel::info);
  RuleEffects effects({*log_, counts_, settings_, restarts_, hooks_});
  // In parts, which the log's queue has room for.
  for (int i = 0; i < 60 * 1500; i += 100) {
    action.attempts.clear();
    for (int k = i; k < i + 100; ++k) {
      action.attempts.push_back(
          {"/" + std::to_string(k % 1500), RuleOutcome::backed_off, "memory.reclaim"});
    }
    effects.evaluated(config_, state_, record_);
    while (!log_->has_room()) ::sched_yield();
  }
  const std::string text = logged();
  EXPECT_EQ(std::ranges::count(text, '\n'), 1025) << "with the line about the limit";
  EXPECT_THAT(text, HasSubstr("limit=1024"));
}

// Their lines wait for a later evaluation instead of displacing others.
TEST_F(RuleEffectsTest, ManyLinesOfProactiveReclaimDisplaceNone) {
  RuleActionReport& action = record_.decision.rulesets[0].actions[0];
  action.name = rulesets::kProactiveReclaim;
  action.attempts.clear();
  for (int i = 0; i < 1100; ++i) {
    action.attempts.push_back({"/" + std::to_string(i), RuleOutcome::backed_off, "memory.reclaim"});
  }
  testing::internal::CaptureStderr();
  log_.emplace(exports::Log::Stream::standard_error, true, exports::LogLevel::info);
  RuleEffects effects({*log_, counts_, settings_, restarts_, hooks_});
  for (int i = 0; i < 1000; ++i) {
    effects.evaluated(config_, state_, record_);
    while (!log_->has_room()) ::sched_yield();
  }
  EXPECT_EQ(log_->dropped(), 0U);
  EXPECT_EQ(std::ranges::count(logged(), '\n'), 1025);
}

TEST_F(RuleEffectsTest, AFailureOfAnotherRulesetIsLoggedToo) {
  actuators::RuleSettingResult result;
  result.path = "/a";
  result.what = "memory.reclaim";
  result.proactive = true;
  result.failure = Error{EIO, "write /a/memory.reclaim"};
  for (const char* ruleset : {"reclaim:a", "reclaim:b", "reclaim:a"}) {
    result.ruleset = ruleset;
    settings_.results.push_back(result);
  }
  record_.decision.rulesets.clear();
  const std::string text = evaluate();
  EXPECT_EQ(std::ranges::count(text, '\n'), 2) << text;
  EXPECT_THAT(text, HasSubstr("ruleset=reclaim:a cgroup=/a"));
  EXPECT_THAT(text, HasSubstr("ruleset=reclaim:b cgroup=/a"));
}

TEST_F(RuleEffectsTest, ADryRunSetsNothingAndUndoesWhatWasSet) {
  evaluate();
  settings_.reclaims.clear();
  config_.dry_run = true;
  evaluate();
  EXPECT_THAT(settings_.applied, IsEmpty());
  EXPECT_THAT(settings_.reclaims, IsEmpty());
}

TEST_F(RuleEffectsTest, WithoutReadingsNothingIsReclaimedAndSettingsStay) {
  record_.observation.rules.reset();
  EXPECT_EQ(evaluate(), "");
  EXPECT_EQ(settings_.applied.size(), 1U);
  EXPECT_THAT(settings_.reclaims, IsEmpty());
}

TEST_F(RuleEffectsTest, OnlyAReclaimThatIsDecidedForAKnownCgroupIsRequested) {
  for (const RuleAttempt& each : {RuleAttempt{"/a", RuleOutcome::dry_run, "memory.reclaim", 4096},
                                  RuleAttempt{"/b", RuleOutcome::written, "memory.reclaim", 4096},
                                  RuleAttempt{"/a", RuleOutcome::written, "memory.high", 4096}}) {
    attempt(each);
    evaluate();
    EXPECT_THAT(settings_.reclaims, IsEmpty()) << each.cgroup << " " << each.file;
  }
}

TEST_F(RuleEffectsTest, AnAttemptThatIsRepeatedIsLoggedOnce) {
  const std::string text = evaluate(3);
  const auto first = text.find("memory.reclaim");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("memory.reclaim", first + 1), std::string::npos) << text;
  EXPECT_THAT(text, HasSubstr("ruleset=batch detectors=big action=act cgroup=/a"));
}

TEST_F(RuleEffectsTest, AKillIsNotLoggedHere) {
  attempt({"/a", RuleOutcome::killed});
  EXPECT_EQ(evaluate(), "");
}

TEST_F(RuleEffectsTest, AFailedUndoIsLoggedWithWhatIsDoneAboutItAndCounted) {
  actuators::RuleSettingResult result;
  result.path = "/a";
  result.what = "cgroup.freeze";
  result.retries = true;
  result.failure = Error{EIO, "write a/cgroup.freeze"};
  settings_.results = {result};
  settings_.failed_undos = 1;
  const std::string failure = evaluate();
  EXPECT_THAT(failure, HasSubstr("write a/cgroup.freeze"));
  EXPECT_THAT(failure, HasSubstr("tried again"));
  EXPECT_EQ(counts_.rule_settings_not_undone, 1U);
  result.failure.reset();
  result.retries = false;
  result.attempts = 3;
  settings_.results = {result};
  settings_.failed_undos = 0;
  EXPECT_THAT(evaluate(), HasSubstr("undone_after_attempts=3"));
  EXPECT_EQ(counts_.rule_settings_not_undone, 0U);
}

TEST_F(RuleEffectsTest, AReclaimIsLoggedWithWhatItBrought) {
  actuators::RuleSettingResult result;
  result.path = "/a";
  result.what = "memory.reclaim";
  result.wanted = Bytes{8192};
  result.reclaimed = Bytes{4096};
  settings_.results = {result};
  EXPECT_THAT(evaluate(), HasSubstr("wanted_bytes=8192 reclaimed_bytes=4096"));
}

TEST_F(RuleEffectsTest, AReloadEndsReclaimsAndStartsTheThreadForRulesetsThatSet) {
  EXPECT_EQ(configure(), "");
  EXPECT_EQ(settings_.cancels, 1);
  EXPECT_EQ(settings_.starts, 1);
  config_.dry_run = true;
  configure();
  EXPECT_EQ(settings_.cancels, 2);
  EXPECT_EQ(settings_.starts, 1);
}

TEST_F(RuleEffectsTest, RulesetsThatOnlyKillNeedNoThread) {
  rulesets::Ruleset kills;
  kills.actions = {{"kill", rulesets::Kill()}};
  config_.rules = std::vector{kills};
  configure();
  EXPECT_EQ(settings_.starts, 0);
}

TEST_F(RuleEffectsTest, ARestartIsRequestedAndLoggedWithItsResult) {
  attempt({"", RuleOutcome::restart_requested, "", 0, "cache.service"});
  EXPECT_THAT(evaluate(), HasSubstr("unit=cache.service outcome=restart-requested"));
  EXPECT_THAT(restarter_.units, ElementsAre("cache.service"));
  restarter_.results = {{"cache.service", std::chrono::seconds(2), std::nullopt, true}};
  EXPECT_THAT(evaluate(), HasSubstr("unit=cache.service restart=done"));
  restarter_.results = {{"cache.service", std::chrono::seconds(2), std::nullopt, false}};
  EXPECT_THAT(evaluate(), HasSubstr("unit=cache.service restart=stopped-already"));
  restarter_.results = {{"cache.service", std::chrono::seconds(2), Error{0, "no such unit"}}};
  const std::string failure = evaluate();
  EXPECT_THAT(failure, HasSubstr("restart=failed"));
  EXPECT_THAT(failure, HasSubstr("no such unit"));
}

TEST_F(RuleEffectsTest, OnlyARestartThatIsDecidedIsRequested) {
  for (const RuleOutcome outcome :
       {RuleOutcome::dry_run, RuleOutcome::held, RuleOutcome::is_protected}) {
    attempt({"", outcome, "", 0, "cache.service"});
    evaluate();
  }
  config_.dry_run = true;
  attempt({"", RuleOutcome::restart_requested, "", 0, "cache.service"});
  evaluate();
  EXPECT_THAT(restarter_.units, IsEmpty());
}

TEST_F(RuleEffectsTest, AReloadDropsRestartsAndStartsTheirThread) {
  rulesets::Ruleset ruleset;
  ruleset.actions = {{"restart", rulesets::RestartUnit{"cache.service"}}};
  config_.rules = std::vector{ruleset};
  restarter_.units = {"cache.service"};
  configure();
  EXPECT_THAT(restarter_.units, IsEmpty());
  EXPECT_EQ(restarter_.starts, 1);
  EXPECT_EQ(settings_.starts, 0);
}

RuleAttempt hook_attempt(RuleOutcome outcome, MonotonicTime until = {}) {
  RuleAttempt attempt{"/a", outcome};
  attempt.hook = "dump";
  attempt.hook_run = 4;
  attempt.hook_until = until;
  return attempt;
}

rulesets::PrekillHook dump_hook() {
  rulesets::PrekillHook hook;
  hook.name = "dump";
  hook.program = "/usr/sbin/dump";
  return hook;
}

TEST_F(RuleEffectsTest, AHookIsStartedWithTheVictimAndTheRecordAndLoggedWithItsResult) {
  config_.hooks = std::vector{dump_hook()};
  record_.observation.at = clock_.now();
  const MonotonicTime until = record_.observation.at + std::chrono::seconds(9);
  attempt(hook_attempt(RuleOutcome::hook_requested, until));
  EXPECT_THAT(evaluate(), HasSubstr("hook=dump cgroup=/a outcome=hook-requested"));
  ASSERT_EQ(runner_.requests.size(), 1U);
  const actuators::HookRequest& request = runner_.requests[0];
  EXPECT_EQ(request.run, 4U);
  EXPECT_EQ(request.hook.program, "/usr/sbin/dump");
  EXPECT_EQ(request.until, until);
  EXPECT_THAT(request.input, HasSubstr(R"({"version":1,"hook":"dump","run":4,"ruleset":"batch",)"
                                       R"("detectors":"big","action":"act","waitsMs":9000,)"
                                       R"("victim":{"cgroup":"/a","cgroupId":7,"workload":null})"));
  EXPECT_THAT(request.input, HasSubstr(R"("record":{)"));
  EXPECT_TRUE(request.input.ends_with("}\n"));
  actuators::HookResult result;
  result.run = 4;
  result.state = HookState::failed;
  result.exit_code = 2;
  runner_.results = {result};
  record_.decision.rulesets.clear();
  const std::string text = evaluate();
  EXPECT_THAT(text, HasSubstr("hook=dump cgroup=/a state=failed"));
  EXPECT_THAT(text, HasSubstr("exit_code=2"));
  EXPECT_EQ(counts_.hooks[static_cast<std::size_t>(HookState::failed)], 1U);
}

TEST_F(RuleEffectsTest, OnlyAHookThatIsDecidedIsStarted) {
  config_.hooks = std::vector{dump_hook()};
  attempt(hook_attempt(RuleOutcome::hook_pending));
  evaluate();
  config_.dry_run = true;
  attempt(hook_attempt(RuleOutcome::hook_requested));
  evaluate();
  EXPECT_THAT(runner_.requests, IsEmpty());
}

TEST_F(RuleEffectsTest, OnlyAChangeOfRulesetsOrHooksEndsTheHooksThatRun) {
  config_.hooks = std::vector{dump_hook()};
  log_.emplace(exports::Log::Stream::standard_error, true, exports::LogLevel::info);
  RuleEffects effects({*log_, counts_, settings_, restarts_, hooks_});
  effects.configured(config_);
  EXPECT_EQ(runner_.starts, 1);
  const int before = runner_.cancels;
  effects.configured(config_);
  EXPECT_EQ(runner_.cancels, before) << "a reload for pods";
  config_.hooks = std::vector{dump_hook(), dump_hook()};
  effects.configured(config_);
  EXPECT_EQ(runner_.cancels, before + 1);
  config_.dry_run = true;
  effects.configured(config_);
  EXPECT_EQ(runner_.cancels, before + 2);
}

// The policy goes on with its kill, so the kill must have its hook.
TEST_F(RuleEffectsTest, TheHookOfARulesetThatAReloadKeepsGoesOn) {
  config_.hooks = std::vector{dump_hook()};
  attempt(hook_attempt(RuleOutcome::hook_requested));
  log_.emplace(exports::Log::Stream::standard_error, true, exports::LogLevel::info);
  RuleEffects effects({*log_, counts_, settings_, restarts_, hooks_});
  effects.configured(config_);
  const int before = runner_.cancels;
  effects.evaluated(config_, state_, record_);
  ASSERT_EQ(hooks_.progress().size(), 1U);

  std::vector<rulesets::Ruleset> rules = *config_.rules;
  rules.insert(rules.begin(), rulesets::Ruleset());  // one that systemd's units bring
  config_.rules = rules;
  effects.configured(config_);
  EXPECT_EQ(runner_.cancels, before);
  EXPECT_THAT(runner_.cancelled, IsEmpty());
  EXPECT_EQ(hooks_.progress().size(), 1U);

  rules.back().post_action_delay += 1;
  config_.rules = rules;
  effects.configured(config_);
  EXPECT_THAT(runner_.cancelled, ElementsAre(4U)) << "it is another ruleset now";
  EXPECT_THAT(hooks_.progress(), IsEmpty());
}

TEST_F(RuleEffectsTest, AHostThatCannotSetIsLogged) {
  settings_.refusal = Error{ENOTSUP, "cgroup v1"};
  const std::string text = configure();
  EXPECT_THAT(text, HasSubstr("cgroup v1"));
  EXPECT_THAT(text, HasSubstr("have no effect"));
}

}  // namespace
}  // namespace forestall::agent
