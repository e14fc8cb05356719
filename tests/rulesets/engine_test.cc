// SPDX-License-Identifier: Apache-2.0
// The engine of oomd's rulesets: which group fires, chains, pauses, drop-ins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oomd_case.h"
#include "rulesets/engine.h"

namespace forestall::test {
namespace {

using testing::ElementsAre;

constexpr const char* kAlways = "{'name': 'continue'}";
constexpr const char* kIfX = "{'name': 'exists', 'args': {'cgroup': 'x'}}";
constexpr const char* kKill =
    "{'name': 'kill_by_pressure', 'args': {'cgroup': 'a', 'resource': 'memory'}}";
constexpr const char* kA = "'cgroups': {'/a': {}}";

std::string at(const char* time, const std::string& more = "") {
  return "{'time': " + std::string(time) + (more.empty() ? "" : ", " + more) + "}";
}

TEST(OomdEngine, AnyGroupFiresIfNoneOfItsPluginsStops) {
  OomdCase run{
      "{'rulesets': [{'name': 'r', 'detectors': [['one', {'name': 'continue'}, {'name': "
      "'stop'}], ['two', {'name': 'continue'}], ['three', {'name': 'continue'}]], "
      "'actions': [{'name': 'stop'}]}]}",
      {at("1")}};
  EXPECT_THAT(outcomes(run), ElementsAre("r[two] stop=stop"));
}

TEST(OomdEngine, AChainThatEndsWithContinueDoesNotPause) {
  OomdCase run{one_ruleset(kAlways, "{'name': 'continue'}, {'name': 'continue'}"),
               {at("1"), at("2")}};
  EXPECT_THAT(outcomes(run), ElementsAre("r[g] continue=continue continue=continue",
                                         "r[g] continue=continue continue=continue"));
}

TEST(OomdEngine, StopPausesActionsUntilTheDelayIsOver) {
  OomdCase run{
      one_ruleset(kAlways, "{'name': 'stop'}, {'name': 'continue'}", ", 'post_action_delay': '2'"),
      {at("1"), at("2.5"), at("3"), at("4")}};
  EXPECT_THAT(outcomes(run),
              ElementsAre("r[g] stop=stop", "r[g] paused", "r[g] stop=stop", "r[g] paused"));
  run.config = one_ruleset(kAlways, "{'name': 'stop'}", ", 'post_action_delay': 0");
  EXPECT_THAT(outcomes(run), testing::Each("r[g] stop=stop"));
}

TEST(OomdEngine, DetectorsAreEvaluatedDuringAPause) {
  // The pressure's clock starts at 2, within the pause that ends at 4.
  OomdCase run{
      "{'rulesets': [{'name': 'r', 'post_action_delay': 3, 'detectors': [['p', {'name': "
      "'pressure_above', 'args': {'cgroup': 'a', 'resource': 'io', 'threshold': 1, 'duration': "
      "2}}], ['x', {'name': 'exists', 'args': {'cgroup': 'x'}}]], 'actions': [{'name': 'stop'}]}]}",
      {at("1", "'cgroups': {'/x': {}}"),
       at("2", "'cgroups': {'/x': null, '/a': {'io.pressure': {'full': {'avg10': 2}}}}"), at("3"),
       at("4")}};
  EXPECT_THAT(outcomes(run), ElementsAre("r[x] stop=stop", "", "", "r[p] stop=stop"));
}

TEST(OomdEngine, RulesetsAreIndependent) {
  OomdCase run{
      "{'rulesets': [{'name': 'r', 'detectors': [['g', {'name': 'continue'}]], 'actions': "
      "[{'name': 'stop'}]}, {'name': 'r', 'detectors': [['h', {'name': 'continue'}]], "
      "'actions': [{'name': 'continue'}]}]}",
      {at("1"), at("2")}};
  EXPECT_THAT(outcomes(run), ElementsAre("r[g] stop=stop r[h] continue=continue",
                                         "r[g] paused r[h] continue=continue"));
}

TEST(OomdEngine, AKillEndsTheChainAndItsOwnDelayReplacesTheRulesets) {
  const std::string kill =
      "{'name': 'kill_by_pressure', 'args': {'cgroup': 'a', 'resource': 'memory', "
      "'post_action_delay': 1}}, {'name': 'continue'}";
  OomdCase run{one_ruleset(kAlways, kill), {at("1", kA), at("1.9"), at("2")}};
  EXPECT_THAT(outcomes(run), ElementsAre("r[g] kill_by_pressure=stop(/a killed)", "r[g] paused",
                                         "r[g] kill_by_pressure=stop(/a killed)"));
}

TEST(OomdEngine, AKillWithoutAVictimContinuesTheChain) {
  OomdCase run{one_ruleset(kAlways, std::string(kKill) + ", {'name': 'continue'}"),
               {at("1"), at("2", "'cgroups': {'/a': {'kill': 'fails'}}")}};
  EXPECT_THAT(outcomes(run),
              ElementsAre("r[g] kill_by_pressure=continue continue=continue",
                          "r[g] kill_by_pressure=continue(/a failed) continue=continue"));
}

TEST(OomdEngine, AlwaysContinueDoesNotPause) {
  OomdCase run{one_ruleset(kAlways,
                           "{'name': 'kill_by_pressure', 'args': {'cgroup': 'a', 'resource': "
                           "'memory', 'always_continue': true}}, {'name': 'continue'}"),
               {at("1", kA), at("2")}};
  EXPECT_THAT(outcomes(run),
              testing::Each("r[g] kill_by_pressure=continue(/a killed) continue=continue"));
}

TEST(OomdEngine, ADryKillPausesAsARealOne) {
  OomdCase run{one_ruleset(kAlways,
                           "{'name': 'kill_by_pressure', 'args': {'cgroup': 'a', 'resource': "
                           "'memory', 'dry': 'true'}}"),
               {at("1", "'cgroups': {'/a': {'kill': 'fails'}}"), at("2")}};
  EXPECT_THAT(outcomes(run), ElementsAre("r[g] kill_by_pressure=stop(/a dry)", "r[g] paused"));
  run.config = one_ruleset(kAlways, kKill);
  run.dry_run = true;
  EXPECT_THAT(outcomes(run), ElementsAre("r[g] kill_by_pressure=stop(/a dry)", "r[g] paused"));
}

TEST(OomdEngine, AKillAmongTheDetectorsKills) {
  OomdCase run{one_ruleset(kKill, "{'name': 'continue'}"), {at("1", kA), at("2")}};
  EXPECT_THAT(outcomes(run), testing::Each("r[] d:kill_by_pressure=stop(/a killed)"));
}

TEST(OomdEngine, ARestartPausesForBothDelays) {
  OomdCase run{one_ruleset(kAlways,
                           "{'name': 'systemd_restart', 'args': {'service': 'x.service', "
                           "'post_action_delay': 2}}",
                           ", 'post_action_delay': 3"),
               {at("1"), at("5.9"), at("6")}};
  EXPECT_THAT(outcomes(run),
              ElementsAre("r[g] systemd_restart=stop restart x.service", "r[g] paused",
                          "r[g] systemd_restart=stop restart x.service"));
}

// --- drop-ins -----------------------------------------------------------------------------------

std::string with_drop_ins(const char* drop_in) {
  return one_ruleset(kIfX, "{'name': 'continue'}", std::string(", 'drop-in': {") + drop_in + "}");
}

std::string file(const std::string& name, const std::string& text) {
  // Quotes within the text of the file stay single; the case doubles them.
  return "'dropIns': {'" + name + "': " + text + "}";
}

std::string drop_in_file(const std::string& ruleset) {
  std::string text = "{'rulesets': [" + ruleset + "]}";
  std::string escaped;
  for (const char c : text) escaped += c == '\'' ? "\\\"" : std::string(1, c);
  return "'" + escaped + "'";
}

TEST(OomdDropIns, ReplaceDetectorsAndRunBeforeTheirBase) {
  const std::string drop_in =
      drop_in_file("{'name': 'r', 'detectors': [['d', {'name': 'continue'}]]}");
  OomdCase run{with_drop_ins("'detectors': true"),
               {at("1", file("a.json", drop_in)), at("2", "'cgroups': {'/x': {}}"),
                at("3", file("a.json", "null"))}};
  EXPECT_THAT(outcomes(run), ElementsAre("r[d] of a.json continue=continue",
                                         "r[d] of a.json continue=continue r[g] continue=continue",
                                         "r[g] continue=continue"));
}

TEST(OomdDropIns, NeedPermissionAndABase) {
  const std::string actions = drop_in_file("{'name': 'r', 'actions': [{'name': 'stop'}]}");
  const std::string stranger = drop_in_file("{'name': 'q'}");
  OomdCase run{with_drop_ins("'detectors': true"),
               {at("1", file("a.json", actions)), at("2", file("b.json", stranger)),
                at("3", file(".c.json", drop_in_file("{'name': 'r'}")))}};
  EXPECT_THAT(outcomes(run), ElementsAre("drop-in a.json refused", "drop-in b.json refused",
                                         "drop-in .c.json refused"));
}

TEST(OomdDropIns, DisableTheirBaseWhileTheyExist) {
  const std::string drop_in = drop_in_file("{'name': 'r', 'actions': [{'name': 'stop'}]}");
  OomdCase run{with_drop_ins("'actions': true, 'disable-on-drop-in': true"),
               {at("1", "'cgroups': {'/x': {}}"), at("2", file("a.json", drop_in)),
                at("3", file("a.json", "null"))}};
  EXPECT_THAT(outcomes(run), ElementsAre("r[g] continue=continue", "r[g] of a.json stop=stop",
                                         "r[g] continue=continue"));
}

TEST(OomdDropIns, AFileWithMistakesLeavesTheEarlierVersion) {
  const std::string good = drop_in_file("{'name': 'r', 'actions': [{'name': 'stop'}]}");
  OomdCase run{
      with_drop_ins("'actions': true, 'disable-on-drop-in': true"),
      {at("1", "'cgroups': {'/x': {}}, " + file("a.json", good)), at("2", file("a.json", "'{'"))}};
  EXPECT_THAT(outcomes(run), ElementsAre("r[g] of a.json stop=stop",
                                         "drop-in a.json refused r[g] of a.json paused"));
}

TEST(OomdDropIns, TheNewestComesFirstAndAChangedFileIsNew) {
  const std::string good = drop_in_file("{'name': 'r', 'actions': [{'name': 'stop'}]}");
  OomdCase run{with_drop_ins("'actions': true, 'disable-on-drop-in': true"),
               {at("1", "'cgroups': {'/x': {}}, 'dropIns': {'a.json': " + good +
                            ", 'b.json': " + good + "}"),
                at("2", file("a.json", good))}};
  // State of a changed file is fresh: no pause.
  EXPECT_THAT(outcomes(run), ElementsAre("r[g] of b.json stop=stop r[g] of a.json stop=stop",
                                         "r[g] of a.json stop=stop r[g] of b.json paused"));
}

// oomd records the group that fired before the one in which the kill stands.
TEST(OomdEngine, AKillAmongDetectorsBelongsToTheGroupThatFiredFirst) {
  rulesets::Ruleset ruleset;
  ruleset.name = "r";
  rulesets::Kill kill;
  kill.cgroups = {{{"a"}}};
  ruleset.groups = {{"first", {{"continue", rulesets::Always{}}}}, {"second", {{"kill", kill}}}};
  ruleset.actions = {{"stop", rulesets::Always{false}}};
  rulesets::RuleConfig config;
  config.program = rulesets::RuleProgram({ruleset}, {});
  rulesets::RuleObservation observed;
  observed.cgroups.resize(2);
  observed.cgroups[0].path = "/";
  observed.cgroups[1].path = "/a";
  const auto step = rulesets::step(config, {}, observed, {rulesets::EffectAnswer::yes});
  ASSERT_EQ(step.decision.kills.size(), 1U);
  EXPECT_EQ(step.decision.kills[0].group, "first");
}

}  // namespace
}  // namespace forestall::test
