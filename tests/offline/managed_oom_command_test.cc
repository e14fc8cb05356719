// SPDX-License-Identifier: Apache-2.0
// `forestall check-config --managed-oom`: files in, JSON out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "support/agent_run.h"
#include "support/temp_tree.h"
#include "text/json_tree.h"

namespace forestall::test {
namespace {

using testing::HasSubstr;

text::JsonNode parsed_report(const std::string& output) {
  std::vector<text::Diagnostic> problems;
  auto root = text::parse_json(output, {}, 1, problems);
  EXPECT_TRUE(root) << output;
  return root.value_or(text::JsonNode{});
}

TEST(ManagedOomCommand, PrintsWhatIsMonitored) {
  const TempTree tree{
      {"messages", R"({"uid": 0, "parameters": {"cgroups": [)"
                   R"({"mode": "kill", "path": "", "property": "ManagedOOMSwap"}, )"
                   R"({"mode": "kill", "path": "/b", "property": "ManagedOOMMemoryPressure", )"
                   R"("limit": 2147483647, "duration": 2500000}, 5]}})"
                   "\n"
                   R"({"uid": 1000, "parameters": {"cgroups": [)"
                   R"({"mode": "kill", "path": "/u", "property": "ManagedOOMMemoryPressure"}, )"
                   R"({"mode": "kill", "path": "/x", "property": "ManagedOOMSwap"}]}})"
                   "\n"},
      {"conf", "[OOM]\nSwapUsedLimit=80%\nDefaultMemoryPressureDurationSec=20s\n"},
      {"owners", R"({"/u": 1000})"}};
  const Ran ran = run_forestall({"check-config", "--managed-oom", tree / "messages", "--oomd-conf",
                                 tree / "conf", "--owners", tree / "owners", "-o", "json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  const text::JsonNode report = parsed_report(ran.output);
  EXPECT_EQ(report.find("conf")->find("SwapUsedLimit")->text, "8000");
  EXPECT_EQ(report.find("conf")->find("DefaultMemoryPressureLimit")->text, "6000");
  EXPECT_EQ(report.find("conf")->find("DefaultMemoryPressureDurationSec")->text, "20");
  EXPECT_EQ(report.find("swap")->items.at(0).text, "/");
  const text::JsonNode& pressure = *report.find("pressure");
  ASSERT_EQ(pressure.items.size(), 2U);
  EXPECT_EQ(pressure.items[0].find("path")->text, "/b");
  EXPECT_EQ(pressure.items[0].find("limitPermyriad")->text, "5000");
  EXPECT_EQ(pressure.items[0].find("durationSeconds")->text, "2.5");
  EXPECT_EQ(pressure.items[1].find("durationSeconds")->text, "20");
  EXPECT_THAT(report.find("refused")->items.at(0).text, HasSubstr(":2: /x: owned by uid 0"));
  EXPECT_THAT(ran.errors, HasSubstr("malformed element, skipped: not an object"));
}

TEST(ManagedOomCommand, RefusesOptionsThatWouldHaveNoEffect) {
  const TempTree tree{{"conf", "[OOM]\n"}, {"observations", "{\"time\": 0}\n"}};
  for (const std::string option : {"--oomd-conf", "--owners", "--systemd-version"}) {
    const Ran ran = run_forestall({"check-config", option, tree / "conf"});
    EXPECT_EQ(ran.exit_code, 2) << option;
    EXPECT_THAT(ran.errors, HasSubstr(option + " has no effect without --managed-oom"));
  }
  const Ran ran = run_forestall(
      {"rules", "--oomd-conf", tree / "conf", "--observations", tree / "observations"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("--oomd-conf has no effect without --managed-oom"));
}

TEST(ManagedOomCommand, RanksCandidates) {
  const std::string most = R"("swap_current": 99, "pgscan": 99, "last_pgscan": 0, "current": 9)";
  const TempTree tree{
      {"candidates", R"({"/a": {"swap_current": 1, "pgscan": 50, "last_pgscan": 40, "current": 9},)"
                     R"("/b": {"swap_current": 9, "pgscan": 5, "last_pgscan": 9, "current": 1},)"
                     R"("/c": {)" +
                         most + R"(, "preference": "avoid"}, "/d": {)" + most +
                         R"(, "preference": "omit"}})"}};
  const auto order = [&](const std::string& by) {
    const Ran ran = run_forestall(
        {"check-config", "--rank", by, "--candidates", tree / "candidates", "-o", "json"});
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    const text::JsonNode report = parsed_report(ran.output);
    std::string names;
    for (const text::JsonNode& each : report.find("ranking")->items) {
      names += each.find("cgroup")->text;
    }
    return names;
  };
  EXPECT_EQ(order("swap"), "/b/a/c");
  EXPECT_EQ(order("pgscan"), "/a/b/c");
}

TEST(ManagedOomCommand, EvaluatesObservations) {
  const TempTree tree{
      {"messages", R"({"cgroups": [{"mode": "kill", "path": "/", "property": "ManagedOOMSwap"}]})"},
      {"observations",
       R"({"time": 0, "host": {"MemTotal": 1000, "MemAvailable": 50, "SwapTotal": 1000, )"
       R"("SwapFree": 50}, "cgroups": {"/a": {"memory.current": 9, "memory.swap.current": 90, )"
       R"("memory.stat": {"pgscan": 0}, "memory.pressure": {"full": {"avg10": 70}}, )"
       R"("kill": "fails"}}})"
       "\n"
       R"({"time": 1, "cgroups": {"/a": {"kill": "ok", "memory.stat": {"pgscan": 5}}}})"
       "\n"
       R"({"time": 2, "host": {"SwapFree": 900}, "managedOom": [{"mode": "kill", "path": "/a", )"
       R"("property": "ManagedOOMMemoryPressure", "duration": 1000000}]})"
       "\n"
       R"({"time": 3, "cgroups": {"/a": {"kill": "ok"}}})"
       "\n"}};
  const Ran ran = run_forestall({"rules", "--managed-oom", tree / "messages", "--observations",
                                 tree / "observations", "-o", "json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  std::istringstream lines(ran.output);
  std::vector<std::string> kills;
  for (std::string line; std::getline(lines, line);) {
    const text::JsonNode report = parsed_report(line);
    std::string text;
    for (const text::JsonNode& each : report.find("kills")->items) {
      text += each.find("reason")->text + " " + each.find("cgroup")->text;
    }
    kills.push_back(text);
  }
  EXPECT_THAT(kills, testing::ElementsAre("", "memory-used /a", "", "memory-pressure /a"));
}

TEST(ManagedOomCommand, MistakesAreRefusedInBothForms) {
  const TempTree tree{{"messages", "{\"cgroups\": []}\n{\"parameters\": {}}\n"},
                      {"conf", "[OOM]\nDefaultMemoryPressureDurationSec=1ms\n"}};
  const Ran ran = run_forestall({"check-config", "--managed-oom", tree / "messages", "-o", "json"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("messages:2:16: the message has no list 'cgroups'"));
  EXPECT_EQ(parsed_report(ran.output).find("errors")->items.size(), 1U);
  const Ran old = run_forestall({"check-config", "--managed-oom", "/dev/null", "--oomd-conf",
                                 tree / "conf", "--systemd-version", "252"});
  EXPECT_EQ(old.exit_code, 2);
  EXPECT_THAT(old.errors, HasSubstr("conf:2:34: "));
  EXPECT_EQ(run_forestall({"check-config", "--rank", "swap"}).exit_code, 2);
  EXPECT_EQ(run_forestall({"check-config", "--managed-oom", "/does/not/exist"}).exit_code, 2);
}

}  // namespace
}  // namespace forestall::test
