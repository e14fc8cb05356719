// SPDX-License-Identifier: Apache-2.0
// The command line: exit codes, help, and errors with instructions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/json.h"
#include "forestall/v1/config.pb.h"
#include "forestall/v1/plan.pb.h"
#include "model/feature.h"
#include "support/agent_run.h"

namespace forestall::test {
namespace {

using testing::HasSubstr;

TEST(CommandLine, VersionAndHelpSucceed) {
  EXPECT_EQ(run_forestall({"--version"}).output, "forestall " FORESTALL_VERSION "\n");
  const Ran help = run_forestall({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* command :
       {"agent", "demo", "doctor", "signals", "rank", "score", "check-config", "plan"}) {
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

TEST(CommandLine, UnknownFeatureIsRefusedWithTheListOfFeatures) {
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

TEST(CommandLine, DoctorWithEverythingOffReportsNoGuard) {
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

TEST(CommandLine, RankReportsThatThereAreNoWorkloads) {
  const TempTree tree{{"none.yaml", "pods: {enabled: false}\n"}};
  const Ran ran = run_forestall({"rank", "--config", tree / "none.yaml"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("no workloads"));
  EXPECT_EQ(run_forestall({"rank", "--cgroup", "relative"}).exit_code, 2);
}

// --- kubelet's settings -------------------------------------------------------------------------

constexpr const char* kKubelet =
    "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";

TEST(CheckConfig, RefusesKubeletsFileAtItsPlace) {
  const TempTree tree{{"kubelet.yaml", std::string(kKubelet) + "evictionHard: {memory: 1Gi}\n"}};
  for (const char* command : {"check-config", "agent", "signals", "rank", "plan"}) {
    const Ran ran = run_forestall({command, "--kubelet-config", tree / "kubelet.yaml"});
    EXPECT_EQ(ran.exit_code, 2) << command;
    EXPECT_THAT(ran.errors, HasSubstr("kubelet.yaml:3:16: unsupported eviction signal 'memory'"));
  }
}

TEST(CheckConfig, RefusesFlagsByName) {
  const Ran soft = run_forestall({"check-config", "--eviction-soft", "memory.available<1Gi"});
  EXPECT_EQ(soft.exit_code, 2);
  EXPECT_THAT(soft.errors, HasSubstr("--eviction-soft: grace period must be specified"));
  const Ran pair = run_forestall({"check-config", "--eviction-hard=memory.available"});
  EXPECT_EQ(pair.exit_code, 2);
  EXPECT_THAT(pair.errors, HasSubstr("malformed pair, expect string<string"));
}

TEST(CheckConfig, MissingKubeletConfigNamesTheFile) {
  const Ran ran = run_forestall({"check-config", "--kubelet-config", "/nonexistent/k.yaml"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("/nonexistent/k.yaml"));
}

TEST(CheckConfig, ShowsThresholdsInOrder) {
  const TempTree tree{{"kubelet.yaml", std::string(kKubelet) +
                                           "evictionHard:\n  memory.available: 1.5Gi\n"
                                           "evictionMinimumReclaim: {memory.available: 10%}\n"}};
  const Ran ran = run_forestall({"check-config", "-o", "json", "--kubelet-config",
                                 tree / "kubelet.yaml", "--eviction-soft=memory.available<15%",
                                 "--eviction-soft-grace-period", "memory.available=1m30s"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  v1::ConfigReport report;
  ASSERT_TRUE(api::from_json(ran.output, report).ok()) << ran.output;
  ASSERT_EQ(report.thresholds_size(), 3);
  const v1::ThresholdReport& hard = report.thresholds(0);
  EXPECT_EQ(hard.signal() + " " + hard.operator_() + " " + hard.value(),
            "memory.available LessThan 1.5Gi");
  EXPECT_EQ(hard.quantity(), "1536Mi");
  EXPECT_EQ(hard.minimum_reclaim(), "10%");
  EXPECT_TRUE(hard.hard());
  EXPECT_THAT(hard.origin(), testing::EndsWith("kubelet.yaml:4:21"));
  const v1::ThresholdReport& soft = report.thresholds(1);
  EXPECT_EQ(soft.value() + " " + soft.grace(), "15% 1m30s");
  EXPECT_EQ(soft.percentage(), 15);
  EXPECT_FALSE(soft.hard());
  EXPECT_EQ(soft.origin(), "--eviction-soft");
  EXPECT_EQ(report.thresholds(2).signal(), "allocatableMemory.available");
  EXPECT_TRUE(report.thresholds(2).copied());
}

TEST(CheckConfig, FlagsRepeatedAndEmpty) {
  const Ran repeated = run_forestall({"check-config", "--eviction-hard=nodefs.available<1Gi",
                                      "--eviction-hard", "pid.available<7%"});
  EXPECT_EQ(repeated.exit_code, 0) << repeated.errors;
  EXPECT_THAT(repeated.output, HasSubstr("nodefs.available"));
  EXPECT_THAT(repeated.output, HasSubstr("7%"));
  const Ran empty = run_forestall({"check-config", "--eviction-hard=", "-o", "json"});
  EXPECT_EQ(empty.exit_code, 0) << empty.errors;
  EXPECT_THAT(empty.output, HasSubstr("\"thresholds\": []"));
  const Ran negative = run_forestall({"check-config", "--eviction-max-pod-grace-period", "-1",
                                      "--kernel-memcg-notification", "-o", "json"});
  EXPECT_EQ(negative.exit_code, 0) << negative.errors;
  EXPECT_THAT(negative.output, HasSubstr("\"maxPodGraceSeconds\": -1"));
  EXPECT_THAT(negative.output, HasSubstr("\"kernelMemcgNotification\": true"));
}

// --- plan ---------------------------------------------------------------------------------------

TEST(PlanCommand, DocsExampleOfIntent) {
  const Ran ran =
      run_forestall({"plan", "--memory-capacity", "10Gi", "--reserve", "10%", "--evict-at", "95%"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("--eviction-hard=memory.available<500Mi"));
  EXPECT_THAT(ran.output, HasSubstr("--system-reserved=memory=1.5Gi"));
}

TEST(PlanCommand, DocsExampleOfAllocatable) {
  const Ran ran =
      run_forestall({"plan", "--memory-capacity=32Gi", "--cpu=16", "--storage=100Gi",
                     "--kube-reserved=cpu=1,memory=2Gi,ephemeral-storage=1Gi",
                     "--system-reserved=cpu=500m,memory=1Gi,ephemeral-storage=1Gi",
                     "--eviction-hard=memory.available<500Mi,nodefs.available<10%", "-o", "json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  v1::PlanReport report;
  ASSERT_TRUE(api::from_json(ran.output, report).ok()) << ran.output;
  ASSERT_EQ(report.resources_size(), 3);
  EXPECT_EQ(report.resources(0).allocatable(), "14500m");
  EXPECT_EQ(report.resources(1).allocatable_rounded(), "28.5Gi");
  EXPECT_EQ(report.resources(2).allocatable_rounded(), "88Gi");
}

// check-config and plan accept the output of plan.
TEST(PlanCommand, SnippetsAreAccepted) {
  const Ran ran = run_forestall({"plan", "--memory-capacity=32Gi", "--reserve=2Gi",
                                 "--evict-at=90%", "--eviction-soft=memory.available<15%",
                                 "--eviction-soft-grace-period=memory.available=1m", "-o", "json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  v1::PlanReport report;
  ASSERT_TRUE(api::from_json(ran.output, report).ok()) << ran.output;
  const TempTree tree{{"kubelet.yaml", report.settings().kubelet_configuration()},
                      {"config.yaml", report.settings().forestall_configuration()}};
  const Ran kubelet = run_forestall({"check-config", "--kubelet-config", tree / "kubelet.yaml"});
  EXPECT_EQ(kubelet.exit_code, 0) << kubelet.errors;
  const Ran own = run_forestall({"check-config", "--config", tree / "config.yaml"});
  EXPECT_EQ(own.exit_code, 0) << own.errors;
  std::vector<std::string> arguments{"check-config"};
  for (const std::string& flag : report.settings().flags()) arguments.push_back(flag);
  EXPECT_EQ(run_forestall(arguments).exit_code, 0);
}

TEST(PlanCommand, Refusals) {
  const Ran sum = run_forestall({"plan", "--memory-capacity=2Gi", "--kube-reserved=memory=3Gi"});
  EXPECT_EQ(sum.exit_code, 2);
  EXPECT_THAT(sum.errors, HasSubstr("has a reservation of"));
  for (const char* evict_at : {"--evict-at=100%", "--evict-at=101%", "--evict-at=x"}) {
    EXPECT_EQ(run_forestall({"plan", "--memory-capacity=2Gi", evict_at}).exit_code, 2) << evict_at;
  }
  EXPECT_EQ(run_forestall({"plan", "--memory-capacity=2Gi", "--evict-at=90%",
                           "--eviction-hard=memory.available<1Gi"})
                .exit_code,
            2);
  EXPECT_EQ(run_forestall({"plan", "--memory-capacity=0"}).exit_code, 2);
  EXPECT_EQ(run_forestall({"plan", "--cpu=4", "--reserve=10%"}).exit_code, 2);
}

TEST(PlanCommand, ThisHost) {
  const Ran ran = run_forestall({"plan"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("ephemeral-storage"));
  EXPECT_THAT(ran.output, HasSubstr("nothing-reserved"));
}

}  // namespace
}  // namespace forestall::test
