// SPDX-License-Identifier: Apache-2.0
// `forestall earlyoom`: files in, JSON out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/agent_run.h"
#include "support/temp_tree.h"
#include "text/json_tree.h"

namespace forestall::test {
namespace {

using testing::HasSubstr;

constexpr const char* kMeminfo =
    "MemTotal: 8388608 kB\nMemAvailable: 419430 kB\nAnonPages: 3774874 kB\nSwapTotal: 0 kB\n"
    "SwapFree: 0 kB\n";
constexpr const char* kProcesses = R"([
  {"pid": 1, "ppid": 0, "uid": 0, "comm": "init", "oom_score": 999, "oom_score_adj": 0,
   "rss_kib": 99},
  {"pid": 100, "ppid": 1, "uid": 5, "comm": "leak", "oom_score": 700, "oom_score_adj": 0,
   "rss_kib": 2000000},
  {"pid": 101, "ppid": 1, "uid": 5, "comm": "Web Content", "oom_score": 500, "oom_score_adj": 0,
   "rss_kib": 1000000}])";

struct Report {
  Ran ran;
  text::JsonNode root;

  const text::JsonNode& at(std::string_view a, std::string_view b = {}) const {
    static const text::JsonNode kNone;
    const text::JsonNode* node = root.find(a);
    if (node != nullptr && !b.empty()) node = node->find(b);
    return node == nullptr ? kNone : *node;
  }
};

Report run(const std::vector<std::string>& options, const std::string& processes = kProcesses) {
  const TempTree tree{{"meminfo", kMeminfo}, {"processes.json", processes}};
  std::vector<std::string> arguments{
      "earlyoom", "--meminfo", tree / "meminfo", "--processes", tree / "processes.json",
      "-o",       "json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  Report report{run_forestall(arguments), {}};
  std::vector<text::Diagnostic> problems;
  report.root = text::parse_json(report.ran.output, {}, 1, problems).value_or(text::JsonNode{});
  return report;
}

TEST(EarlyoomCommand, ShowsSignalVictimAndSleep) {
  const Report report = run({"--compat", "1.7", "--prefer", "^Web"});
  EXPECT_EQ(report.ran.exit_code, 0) << report.ran.errors;
  EXPECT_EQ(report.at("signal").text, "SIGKILL");  // 4.99 % of MemTotal
  EXPECT_EQ(report.at("victim", "pid").text, "101");
  EXPECT_EQ(report.at("thresholds", "memTerm").text, "10");
  EXPECT_EQ(report.at("thresholds", "swapKill").text, "5");
  EXPECT_EQ(report.at("available", "swap").text, "0");
  EXPECT_EQ(report.at("sleepMs").text, "100");
  EXPECT_EQ(report.at("ruleset", "name").text, "earlyoom");
}

TEST(EarlyoomCommand, VersionsDiffer) {
  const Report report = run({});  // 1.9: 9.99 % of MemAvailable and AnonPages
  EXPECT_EQ(report.at("signal").text, "SIGTERM");
  EXPECT_EQ(report.at("victim", "pid").text, "100");
  EXPECT_EQ(run({"-m5,2"}).at("signal").text, "none");
  EXPECT_EQ(run({"-m5,2"}).at("victim").kind, text::JsonNode::Kind::null);
}

TEST(EarlyoomCommand, ShortOptionsMayBeJoined) {
  const Report report = run({"-ngp", "-r", "0", "-M", "800000,400000", "--dryrun"});
  EXPECT_EQ(report.ran.exit_code, 0) << report.ran.errors;
  EXPECT_EQ(report.at("ruleset", "dryRun").text, "");
  EXPECT_TRUE(report.at("ruleset", "dryRun").flag);
  EXPECT_EQ(report.at("ruleset", "reportIntervalMs").text, "0");
}

TEST(EarlyoomCommand, NoVictimIsNull) {
  const Report report = run({}, "[]");
  EXPECT_EQ(report.at("signal").text, "SIGTERM");
  EXPECT_EQ(report.at("victim").kind, text::JsonNode::Kind::null);
}

TEST(EarlyoomCommand, MistakesAreRefusedInBothForms) {
  const Report level = run({"-m", "200"});
  EXPECT_EQ(level.ran.exit_code, 2);
  EXPECT_THAT(level.ran.errors, HasSubstr("-m: '200': exceeds the limit 99"));
  EXPECT_EQ(level.at("errors").items.at(0).find("place")->text, "-m");
  EXPECT_EQ(run({"-r", "-1"}).ran.exit_code, 2);
  EXPECT_EQ(run({"--prefer", "("}).ran.exit_code, 2);
  EXPECT_EQ(run({"--compat", "1.8"}).ran.exit_code, 2);
  EXPECT_EQ(run({"--compat", "1.7", "--sort-by-rss"}).ran.exit_code, 2);
  EXPECT_EQ(run({"--no-such-option"}).ran.exit_code, 2);
  EXPECT_EQ(run({"surplus"}).ran.exit_code, 2);
  const Report file = run({}, "[\n {\"pid\": 0}]");
  EXPECT_EQ(file.ran.exit_code, 2);
  EXPECT_THAT(file.ran.errors, HasSubstr("processes.json:2:10: "));
  EXPECT_EQ(run_forestall({"earlyoom", "--meminfo", "x"}).exit_code, 2);
}

TEST(EarlyoomCommand, PrintsItsVersion) {
  const Ran ran = run_forestall({"earlyoom", "-v", "--compat", "1.7"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.output, testing::StartsWith("earlyoom 1.7"));
}

}  // namespace
}  // namespace forestall::test
