// SPDX-License-Identifier: Apache-2.0
// `forestall rules` and `check-config --oomd-config`: whole runs on files, and their exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "clients/unit_restart.h"
#include "support/agent_run.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

using testing::HasSubstr;

const std::string kData = FORESTALL_TEST_DATA "/rulesets/";

// Compares with a file of the tests; with FORESTALL_UPDATE set, writes it.
void expect_golden(const std::string& output, const std::string& file) {
  if (std::getenv("FORESTALL_UPDATE") != nullptr) {
    std::ofstream(kData + file) << output;
    return;
  }
  EXPECT_EQ(output, read_text(kData + file)) << file;
}

TEST(RulesCommand, EvaluatesOomdsRulesets) {
  std::vector<std::string> arguments{"rules", "--oomd-config", kData + "desktop.oomd.json",
                                     "--observations", kData + "desktop.jsonl"};
  const Ran text = run_forestall(arguments);
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  expect_golden(text.output, "desktop.txt");
  arguments.insert(arguments.end(), {"-o", "json"});
  const Ran json = run_forestall(arguments);
  EXPECT_EQ(json.exit_code, 0) << json.errors;
  expect_golden(json.output, "desktop.out.jsonl");
}

TEST(RulesCommand, EvaluatesRulesetsOfItsOwnConfiguration) {
  const TempTree tree{
      {"config.yaml",
       "rulesets:\n- name: r\n  detectors:\n  - name: g\n    all:\n"
       "    - available: {below: 10%}\n  actions:\n  - log: short of memory\n"
       "  - kill: {cgroups: ['/batch/*']}\n"},
      {"obs.jsonl",
       "{\"time\": 1, \"host\": {\"MemTotal\": 100, \"MemAvailable\": 9}, \"cgroups\": "
       "{\"/batch/a\": {\"memory.current\": 1}, \"/batch/b\": {\"memory.current\": 2}}}\n"}};
  const std::string config = tree / "config.yaml";
  const Ran text =
      run_forestall({"rules", "--config", config, "--observations", tree / "obs.jsonl"});
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_EQ(text.output,
            "1.000 s ruleset r: g fires\n    log -> continue\n"
            "    kill -> stop: /batch/b killed\n1.000 s kill /batch/b: kill\n"
            "1.000 s log: short of memory\n");
  const Ran words = run_forestall({"check-config", "--config", config});
  EXPECT_EQ(words.exit_code, 0) << words.errors;
  EXPECT_THAT(words.output, HasSubstr("ruleset r: pause 15 s after an action\n  if g, all of:\n"
                                      "    available memory is below 10 % of MemTotal\n"));
  const Ran json = run_forestall({"check-config", "--config", config, "-o", "json"});
  EXPECT_THAT(json.output, HasSubstr("\"below\": \"10%\""));
}

TEST(RulesCommand, CheckConfigNamesRulesetsWhoseKillAfterAHookNeedsNoGroup) {
  const std::string ruleset =
      "\n  detectors: [{name: g, all: [{available: {below: 10%}}]}]\n  actions:\n"
      "  - kill: {cgroups: ['/batch/*']";
  const TempTree tree{
      {"config.yaml", "prekillHooks: [{name: dump, program: /sbin/dump}]\nrulesets:\n- name: own" +
                          ruleset + "}\n- name: imported" + ruleset + ", preference: oomd}\n"}};
  const Ran text = run_forestall({"check-config", "--config", tree / "config.yaml"});
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_THAT(text.output,
              testing::EndsWith(
                  "after a prekill hook, a kill follows only if a group of its ruleset fires\n"
                  "  of ruleset imported, also if none fires (preference: oomd)\n"));
}

TEST(RulesCommand, CheckConfigPrintsAPauseOnlyForActionsThatEndTheChain) {
  const TempTree tree{
      {"config.yaml",
       "reclaim: [{name: batch, cgroups: ['/batch/*']}]\nrulesets:\n"
       "- name: goes on\n  detectors: [{name: g, all: [{always: false}]}]\n"
       "  actions: [{log: a}, {kill: {cgroups: ['/x'], thenContinue: true, pause: 9s}}]\n"
       "- name: stops\n  detectors: [{name: g, all: [{always: true}]}]\n"
       "  actions: [{chain: stop}]\n"}};
  const Ran text = run_forestall({"check-config", "--config", tree / "config.yaml"});
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_THAT(text.output, HasSubstr("ruleset goes on:\n  if g, all of:\n    always false\n"));
  EXPECT_THAT(text.output, testing::Not(HasSubstr("pause 9 s"))) << "its kill never ends the chain";
  EXPECT_THAT(text.output, HasSubstr("ruleset stops: pause 15 s after an action\n"
                                     "  if g, all of:\n    always true\n"
                                     "  then in turn:\n    stop the chain\n"));
  EXPECT_THAT(text.output,
              HasSubstr("ruleset reclaim:batch:\n  if always, all of:\n    always true\n"));
}

TEST(RulesCommand, AnAgentRefusesActionsThatItDoesNotRun) {
  const std::string ruleset = "{name: r, detectors: [{name: g, all: [{always: false}]}], actions: ";
  const TempTree tree{
      {"restart.yaml",
       "rulesets:\n- " + ruleset + "[{log: a},\n  {restart: {unit: none.service}}]}\n"},
      {"io.yaml", "rulesets:\n- " + ruleset + "[{kill: {cgroups: [/none], by: ioCost}}]}\n"},
      {"plain.yaml", "rulesets:\n- " + ruleset + "[{log: a}]}\n"},
      {"oomd.json",
       R"({"rulesets": [{"name": "r", "detectors": [["g", {"name": "stop"}]],
           "actions": [{"name": "systemd_restart", "args": {"service": "none.service"}}]}]})"}};
  const auto refusal = [](const std::vector<std::string>& arguments) {
    std::vector<std::string> command{"agent", "--dry-run", "--config"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const Ran ran = run_forestall(command);
    return ran.exit_code == 2 ? ran.errors : "not refused";
  };
  if (!clients::systemd_is_running()) {
    EXPECT_THAT(refusal({tree / "restart.yaml"}),
                HasSubstr("restart.yaml:3:13: 'restart': it requires systemd, and "
                          "/run/systemd/system does not exist; remove it"));
  }
  EXPECT_THAT(refusal({tree / "io.yaml"}), HasSubstr("'kill': the agent has no costs of devices"));
  EXPECT_THAT(refusal({tree / "plain.yaml", "--oomd-config", tree / "oomd.json"}),
              HasSubstr("exclude each other"));
  EXPECT_THAT(refusal({tree / "plain.yaml", "--oomd-drop-in-dir", tree.path()}),
              HasSubstr("requires --oomd-config"));
  if (clients::systemd_is_running()) return;
  const TempTree empty{{"config.yaml", "dryRun: true\n"}};
  EXPECT_THAT(refusal({empty / "config.yaml", "--oomd-config", tree / "oomd.json"}),
              HasSubstr("oomd.json: ruleset 'r', action 1 ('restart'): it requires systemd"));
}

TEST(RulesCommand, AnAgentRefusesAHookWithTheNameOfOneOfOomd) {
  const TempTree tree{
      {"config.yaml", "prekillHooks: [{name: dummy_prekill_hook 1, program: /sbin/dump}]\n"},
      {"oomd.json", R"({"rulesets": [{"name": "r", "detectors": [["g", {"name": "stop"}]],
           "actions": [{"name": "kill_by_swap_usage", "args": {"cgroup": "none"}}]}],
           "prekill_hooks": [{"name": "dummy_prekill_hook", "args": {"cgroup": "/"}}]})"}};
  const Ran ran = run_forestall({"agent", "--dry-run", "--config", tree / "config.yaml",
                                 "--oomd-config", tree / "oomd.json"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("prekillHooks[0].name: the name 'dummy_prekill_hook 1' is that "
                                    "of a hook of " +
                                    std::string(tree / "oomd.json")));
}

TEST(RulesCommand, EvaluatesOnThisHostAndActsOnNothing) {
  const TempTree tree{{"config.yaml",
                       "rulesets: [{name: r, detectors: [{name: g, all: [{exists: [/]}, "
                       "{usage: {cgroups: [/], above: '1'}}]}], actions: [{log: seen}, {kill: "
                       "{cgroups: [/forestall-test-no-such-group]}}]}]\n"}};
  const std::string config = tree / "config.yaml";
  const Ran ran = run_forestall({"rules", "--config", config, "--live", "--count", "1"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr(" s ruleset r: g fires\n    log -> continue\n"
                                    "    kill -> continue\n"));
  EXPECT_EQ(run_forestall({"rules", "--config", config}).exit_code, 2);
  EXPECT_EQ(run_forestall({"rules", "--config", config, "--live", "--drop-in-dir", "/"}).exit_code,
            2);
}

TEST(RulesCommand, RefusesAConfigurationWithoutRulesets) {
  const TempTree tree{{"config.yaml", "dryRun: true\n"}, {"obs.jsonl", "{\"time\": 1}\n"}};
  const Ran ran = run_forestall(
      {"rules", "--config", tree / "config.yaml", "--observations", tree / "obs.jsonl"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("config.yaml:1:1: there are no 'rulesets' and no 'reclaim' "
                                    "to evaluate"));
}

TEST(RulesCommand, ImportsOomdsRulesets) {
  const Ran refused = run_forestall({"import-oomd", kData + "desktop.jsonl"});
  EXPECT_EQ(refused.exit_code, 2);
  const TempTree tree{{"oomd.json",
                       R"({"rulesets": [{"name": "r", "silence-logs": "engine", "detectors": )"
                       R"([["g", {"name": "swap_free", "args": {"threshold_pct": 5}}]], )"
                       R"("actions": [{"name": "kill_by_swap_usage", "args": )"
                       R"({"cgroup": "user.slice/*"}}]}]})"}};
  const Ran imported = run_forestall({"import-oomd", tree / "oomd.json"});
  EXPECT_EQ(imported.exit_code, 0) << imported.errors;
  EXPECT_EQ(imported.output,
            "rulesets:\n- name: \"r\"\n  pause: 15s\n  detectors:\n  - name: \"g\"\n    all:\n"
            "    - available: {resource: swap, below: 5%}\n  actions:\n"
            "  - kill: {cgroups: [\"/user.slice/*\"], by: swap, preference: oomd, "
            "swapAtLeast: \"1\"}\n");
  EXPECT_EQ(imported.errors, "note: ruleset 'r': 'silence-logs' is left out; it decides nothing\n");
}

TEST(RulesCommand, ChecksOomdsConfiguration) {
  std::vector<std::string> arguments{"check-config", "--oomd-config", kData + "desktop.oomd.json"};
  const Ran text = run_forestall(arguments);
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  // FieldPositions begin with the path, which differs from machine to machine.
  EXPECT_THAT(text.output, HasSubstr("ruleset protect the workload: pause 10 s after an action"));
  EXPECT_THAT(text.output, HasSubstr("where oomd differs:\n"));
  arguments.insert(arguments.end(), {"-o", "json"});
  const Ran json = run_forestall(arguments);
  EXPECT_EQ(json.exit_code, 0) << json.errors;
  EXPECT_THAT(json.output, HasSubstr("\"postActionDelaySeconds\": 10"));
  EXPECT_THAT(json.output, HasSubstr("\"disable-on-drop-in\": false"));
  EXPECT_THAT(json.output, HasSubstr("desktop.oomd.json:23:"));
}

TEST(RulesCommand, PrintsTheArgumentsThatChangeOnlyLogs) {
  const TempTree tree{{"oomd.json",
                       R"({"rulesets": [{"name": "r", "detectors": [["g", )"
                       R"({"name": "exists", "args": {"cgroup": "a", "debug": "True"}}]], )"
                       R"("actions": [{"name": "senpai", "args": {"cgroup": "a", )"
                       R"("log_interval": 7}}]}]})"}};
  const Ran ran =
      run_forestall({"check-config", "--oomd-config", tree / "oomd.json", "-o", "json"});
  EXPECT_THAT(ran.output, HasSubstr("\"debug\": true"));
  EXPECT_THAT(ran.output, HasSubstr("\"log_interval\": 7"));
}

TEST(RulesCommand, RefusedFilesExitWithTwoAndNameTheirPlace) {
  const TempTree tree{{"oomd.json", "{\"rulesets\": [],\n \"x\": 1}"},
                      {"good.json", "{}"},
                      {"obs.jsonl", "{\"time\": 1}\n{\"time\": 0}\n"}};
  const Ran config =
      run_forestall({"check-config", "--oomd-config", tree / "oomd.json", "-o", "json"});
  EXPECT_EQ(config.exit_code, 2);
  EXPECT_THAT(config.errors, HasSubstr("oomd.json:2:2: unknown key 'x'"));
  EXPECT_THAT(config.output, HasSubstr("{\"errors\":[{\"place\":\""));
  const Ran rules = run_forestall({"rules", "--oomd-config", tree / "good.json", "--observations",
                                   tree / "obs.jsonl", "-o", "json"});
  EXPECT_EQ(rules.exit_code, 2);
  EXPECT_THAT(rules.output, HasSubstr("{\"time\":1,\"rulesets\":[],"));
  EXPECT_THAT(rules.output, HasSubstr("obs.jsonl:2:10"));
  EXPECT_EQ(run_forestall({"rules", "--oomd-config", tree / "none.json", "--observations",
                           tree / "obs.jsonl"})
                .exit_code,
            2);
  EXPECT_EQ(run_forestall({"rules", "--observations", tree / "obs.jsonl"}).exit_code, 2);
}

TEST(RulesCommand, DropInsAreReadInTheOrderOfTheirNames) {
  const TempTree tree{
      {"oomd.json",
       "{\"rulesets\": [{\"name\": \"r\", \"drop-in\": {\"actions\": true}, \"detectors\": "
       "[[\"g\", {\"name\": \"continue\"}]], \"actions\": [{\"name\": \"continue\"}]}]}"},
      {"d/b.json", "{\"rulesets\": [{\"name\": \"r\", \"actions\": [{\"name\": \"stop\"}]}]}"},
      {"d/a.json", "{\"rulesets\": [{\"name\": \"q\"}]}"},
      {"d/.c.json", "{"},
      {"obs.jsonl", "{\"time\": 1}\n"}};
  const Ran rules = run_forestall({"rules", "--oomd-config", tree / "oomd.json", "--drop-in-dir",
                                   tree / "d", "--observations", tree / "obs.jsonl", "-o", "json"});
  EXPECT_EQ(rules.exit_code, 0) << rules.errors;
  EXPECT_THAT(rules.output, HasSubstr("\"dropIns\":[{\"file\":\"a.json\",\"accepted\":false,"));
  EXPECT_THAT(rules.output, HasSubstr("{\"file\":\"b.json\",\"accepted\":true}]"));
  EXPECT_THAT(rules.output, HasSubstr("\"dropIn\":\"b.json\",\"group\":\"g\""));
  const Ran check = run_forestall(
      {"check-config", "--oomd-config", tree / "oomd.json", "--drop-in-dir", tree / "d"});
  EXPECT_EQ(check.exit_code, 2);
  EXPECT_THAT(check.errors, HasSubstr("d/a.json:1:24: no ruleset 'q' to drop this into"));
  const Ran nowhere =
      run_forestall({"rules", "--oomd-config", tree / "oomd.json", "--drop-in-dir", tree / "none",
                     "--observations", tree / "obs.jsonl", "-o", "json"});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_THAT(nowhere.output, HasSubstr("{\"errors\":[{\"place\":\""));
}

TEST(RulesCommand, RunsTheStandaloneSenpai) {
  const TempTree tree{
      {"senpai.json", "{\"cgroup\": \"/a\", \"interval\": 1}"},
      {"obs.jsonl",
       "{\"time\": 1, \"cgroups\": {\"/a\": {\"memory.current\": 1073741824, "
       "\"memory.pressure\": {\"some\": {\"total\": 0}}}}}\n{\"time\": 2}\n{\"time\": 3}\n"}};
  const Ran ran = run_forestall({"rules", "--senpai", tree / "senpai.json", "--observations",
                                 tree / "obs.jsonl", "-o", "json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("{\"file\":\"/a/memory.high\",\"value\":1073741824}"));
  EXPECT_THAT(ran.output, HasSubstr("{\"file\":\"/a/memory.high\",\"value\":1063002112}"));
}

}  // namespace
}  // namespace forestall::test
