// SPDX-License-Identifier: Apache-2.0
// The command line as its user meets it: exit codes, help, errors that say what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/feature.h"
#include "support/agent_run.h"

namespace forestall::test {
namespace {

using testing::HasSubstr;

TEST(CommandLine, VersionAndHelpSucceed) {
  EXPECT_EQ(run_forestall({"--version"}).output, "forestall " FORESTALL_VERSION "\n");
  const Ran help = run_forestall({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* command : {"agent", "demo", "doctor", "signals", "rank", "check-config"}) {
    EXPECT_THAT(help.output, HasSubstr(command));
    EXPECT_EQ(run_forestall({command, "--help"}).exit_code, 0) << command;
  }
}

TEST(CommandLine, UnknownWordsAreRefused) {
  EXPECT_EQ(run_forestall({"evict"}).exit_code, 2);
  EXPECT_EQ(run_forestall({"doctor", "--frobnicate"}).exit_code, 2);
  const Ran format = run_forestall({"doctor", "--output", "xml"});
  EXPECT_EQ(format.exit_code, 2);
  EXPECT_THAT(format.errors, HasSubstr("xml"));
}

TEST(CommandLine, UnknownFeatureIsRefusedWithAllThatThereAre) {
  const Ran ran = run_forestall({"doctor", "--disable-feature", "magic"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("unknown feature 'magic'"));
  EXPECT_THAT(ran.errors, HasSubstr("bpf-timer"));
}

TEST(CommandLine, MissingConfigNamesTheFile) {
  const Ran ran = run_forestall({"check-config", "--config", "/nonexistent/config.yaml"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("/nonexistent/config.yaml"));
}

TEST(CommandLine, BadConfigIsRefusedAtItsPlace) {
  const TempTree tree{{"bad.yaml", "evictionHard:\n  memory.available: 100Mo\n"}};
  for (const char* command : {"check-config", "agent", "signals", "rank"}) {
    const Ran ran = run_forestall({command, "--config", tree / "bad.yaml"});
    EXPECT_EQ(ran.exit_code, 2) << command;
    EXPECT_THAT(ran.errors, HasSubstr("bad.yaml:2:21:")) << command;
  }
}

TEST(CommandLine, DoctorWithEverythingOffSaysThatNothingGuards) {
  std::vector<std::string> arguments{"doctor"};
  for (const std::string& feature : wake_features()) {
    arguments.push_back("--disable-feature");
    arguments.push_back(feature);
  }
  const Ran ran = run_forestall(arguments);
  EXPECT_EQ(ran.exit_code, 3) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("NOTHING CAN GUARD THIS HOST"));
}

TEST(CommandLine, DoctorInJsonListsEveryFeature) {
  const Ran ran = run_forestall({"doctor", "--output", "json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  for (std::size_t i = 0; i < kFeatureCount; ++i) {
    EXPECT_THAT(ran.output, HasSubstr("\"" + std::string(to_string(feature_at(i))) + "\""));
  }
}

TEST(CommandLine, SignalsShowsTheNode) {
  const Ran ran = run_forestall({"signals"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("memory.available"));
  EXPECT_THAT(ran.output, HasSubstr("node"));
}

TEST(CommandLine, RankWithoutWorkloadsSaysSo) {
  const TempTree tree{{"none.yaml", "pods: {enabled: false}\n"}};
  const Ran ran = run_forestall({"rank", "--config", tree / "none.yaml"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("no workloads"));
  EXPECT_EQ(run_forestall({"rank", "--cgroup", "relative"}).exit_code, 2);
}

}  // namespace
}  // namespace forestall::test
