// SPDX-License-Identifier: Apache-2.0
// `forestall rebalance` and `forestall check-config --policy-config-file`: options, output, errors.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/agent_run.h"
#include "text/json_tree.h"

namespace forestall::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kPolicy = R"(apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: web
  pluginConfig:
  - name: LowNodeUtilization
    args:
      thresholds: {cpu: 20}
      targetThresholds: {cpu: 50}
  plugins:
    balance:
      enabled: [LowNodeUtilization]
)";

std::string node(const std::string& name) {
  return R"({"kind": "Node", "metadata": {"name": ")" + name +
         R"("}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}})";
}

std::string pod(const std::string& name) {
  return R"({"kind": "Pod", "metadata": {"name": ")" + name + R"(", "namespace": "d", "uid": "u-)" +
         name +
         R"(", "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "r"}]},
             "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests":
             {"cpu": "400m"}}}]}, "status": {"phase": "Running"}})";
}

TempTree files() {
  return TempTree{
      {"policy.yaml", kPolicy},
      {"nodes.json", R"({"kind": "List", "items": [)" + node("n1") + "," + node("n2") + "]}"},
      {"pods.json", pod("a") + pod("b")}};
}

TEST(RebalanceCommand, PrintsThePlanAsJson) {
  const TempTree tree = files();
  const Ran ran = run_forestall({"rebalance", "--policy-config-file", tree / "policy.yaml",
                                 "--cluster", tree / "nodes.json", tree / "pods.json", "--now",
                                 "2026-01-01T00:00:00Z", "--dry-run", "-o", "json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  std::vector<text::Diagnostic> problems;
  ASSERT_TRUE(text::parse_json(ran.output, {}, 1, problems)) << ran.output;
  for (const char* const expected :
       {R"("plugin": "LowNodeUtilization")", R"("extensionPoint": "balance")",
        R"("class": "overutilized")", R"("class": "underutilized")", R"("cpu": 800)",
        R"("qosClass": "Burstable")", R"("passed": true)", R"("name": "a")", R"("uid": "u-a")",
        R"("profile": "web")", R"("destination": "n2")", R"("limits": [])", R"("error": null)"}) {
    EXPECT_THAT(ran.output, HasSubstr(expected));
  }
}

// It is printed in pieces of 64 KiB.
TEST(RebalanceCommand, PrintsAPlanOfAnyLength) {
  constexpr int kPodCount = 400;
  const TempTree tree = files();
  std::string pods;
  for (int i = 0; i < kPodCount; ++i) pods += pod("p" + std::to_string(i));
  tree.write("pods.json", pods);
  const Ran ran =
      run_forestall({"rebalance", "--policy-config-file", tree / "policy.yaml", "--cluster",
                     tree / "nodes.json", tree / "pods.json", "-o", "json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_GT(ran.output.size(), 3U << 16U);
  std::vector<text::Diagnostic> problems;
  EXPECT_TRUE(text::parse_json(ran.output, {}, 1, problems));
  int considered = 0;
  for (std::size_t at = 0; (at = ran.output.find("\"qosClass\"", at)) != std::string::npos; ++at) {
    ++considered;
  }
  EXPECT_EQ(considered, kPodCount);
}

// Without --now the time of recorded samples has no plan's time to be compared with.
TEST(RebalanceCommand, AgesSamplesOnlyAgainstAGivenTime) {
  TempTree tree = files();
  std::string policy = kPolicy;
  policy.replace(policy.find("      thresholds"), 0,
                 "      metricsUtilization: {source: KubernetesMetrics}\n");
  tree.write("policy.yaml", "metricsProviders: [{source: KubernetesMetrics}]\n" + policy);
  std::string samples;
  for (const char* const name : {"n1", "n2"}) {
    samples += fmt::format(R"({{"kind": "NodeMetrics", "metadata": {{"name": "{}"}},
                               "timestamp": "2026-01-01T00:00:00Z",
                               "usage": {{"cpu": "100m", "memory": "1Mi"}}}})",
                           name);
  }
  tree.write("metrics.json", samples);
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"rebalance",
                                       "--policy-config-file",
                                       tree / "policy.yaml",
                                       "--cluster",
                                       tree / "nodes.json",
                                       tree / "pods.json",
                                       "--metrics",
                                       tree / "metrics.json",
                                       "--compat",
                                       "fixed",
                                       "-o",
                                       "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_forestall(arguments).output;
  };
  EXPECT_THAT(run({}), HasSubstr(R"("error": null)"));
  EXPECT_THAT(run({"--now", "2026-01-01T00:01:00Z"}), HasSubstr(R"("error": null)"));
  EXPECT_THAT(run({"--now", "2026-01-01T00:03:00Z"}), HasSubstr("180 s old"));
}

// The option overrules the policy.
TEST(RebalanceCommand, CorrectsTheDeschedulerIfEnabled) {
  const TempTree tree = files();
  tree.write("fixed.yaml", "compat: fixed\n" + std::string(kPolicy));
  const auto run = [&](const std::string& policy, std::vector<std::string> more) {
    std::vector<std::string> arguments{"rebalance", "--policy-config-file", tree / policy,
                                       "--cluster", tree / "nodes.json",    tree / "pods.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran ran = run_forestall(arguments);
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    return ran.output;
  };
  EXPECT_THAT(run("policy.yaml", {"-o", "json"}), Not(HasSubstr("corrections")));
  EXPECT_THAT(run("fixed.yaml", {"-o", "json"}), HasSubstr("room-first"));
  EXPECT_THAT(run("fixed.yaml", {"--compat", "upstream", "-o", "json"}),
              Not(HasSubstr("corrections")));
  const std::string table = run("policy.yaml", {"--compat", "fixed"});
  EXPECT_THAT(table, testing::ContainsRegex("pod +node +to +plugin"));
  EXPECT_THAT(table, testing::ContainsRegex("d/a +n1 +n2 +LowNodeUtilization"));
}

// What one plan prints paces the next one.
TEST(RebalanceCommand, TakesTheHistoryOfAnEarlierPlan) {
  const TempTree tree = files();
  tree.write("paced.yaml", "pacing: {movesPerWorkload: 1}\n" + std::string(kPolicy));
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"rebalance", "--policy-config-file", tree / "paced.yaml",
                                       "--cluster", tree / "nodes.json",    tree / "pods.json",
                                       "--now",     "2026-01-01T00:00:00Z", "-o",
                                       "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_forestall(arguments);
  };
  const Ran first = run({});
  EXPECT_THAT(first.output, HasSubstr(R"("time": "2026-01-01T00:00:00.000Z")"));
  EXPECT_THAT(first.output, Not(HasSubstr("refused")));
  tree.write("plan.json", first.output);
  const Ran second = run({"--history", tree / "plan.json"});
  EXPECT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_THAT(second.output, HasSubstr("a pod of its workload was moved 0 s ago"));
  tree.write("bad.json", "{\n \"moves\": [{}]}");
  const Ran bad = run({"--history", tree / "bad.json"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.errors, HasSubstr("bad.json: moves[0]: 'owner' is missing"));
}

TEST(RebalanceCommand, HoldsASeatForWhatWaitsInTheHistory) {
  const TempTree tree = files();
  for (const std::string most : {"0", "1"}) {
    tree.write(most + ".yaml",
               "compat: fixed\nmaxNoOfPodsToEvictTotal: " + most + "\n" + std::string(kPolicy));
  }
  const auto run = [&](const std::string& most, const std::string& time,
                       std::vector<std::string> more) {
    std::vector<std::string> arguments{"rebalance",
                                       "--policy-config-file",
                                       tree / (most + ".yaml"),
                                       "--cluster",
                                       tree / "nodes.json",
                                       tree / "pods.json",
                                       "--now",
                                       time,
                                       "-o",
                                       "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran ran = run_forestall(arguments);
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    return ran.output;
  };
  const std::string first = run("0", "2026-01-01T00:00:00Z", {});
  EXPECT_THAT(first, HasSubstr(R"("since": "2026-01-01T00:00:00.000Z")"));
  EXPECT_THAT(first, Not(HasSubstr("heldSeats")));
  tree.write("plan.json", first);
  const std::string second = run("1", "2026-01-01T00:30:00Z", {"--history", tree / "plan.json"});
  EXPECT_THAT(second, HasSubstr("heldSeats"));
  EXPECT_THAT(second, HasSubstr(R"("waitedSeconds": 1800)"));
}

TEST(RebalanceCommand, RefusesAnotherMode) {
  const TempTree tree = files();
  tree.write("policy.yaml", "compat: better\n" + std::string(kPolicy));
  const Ran ran = run_forestall({"rebalance", "--policy-config-file", tree / "policy.yaml",
                                 "--cluster", tree / "nodes.json"});
  EXPECT_EQ(ran.exit_code, 2) << ran.errors;
  EXPECT_THAT(ran.errors, HasSubstr("policy.yaml:1"));
  EXPECT_THAT(ran.errors, HasSubstr("must be 'upstream' or 'fixed', found 'better'"));
}

TEST(RebalanceCommand, PrintsTheEvictionsAsText) {
  const TempTree tree = files();
  const Ran ran =
      run_forestall({"rebalance", "--policy-config-file", tree / "policy.yaml", "--cluster",
                     tree / "nodes.json", "--cluster", tree / "pods.json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("web/LowNodeUtilization: 1 evictions"));
  EXPECT_THAT(ran.output, HasSubstr("d/a"));
}

TEST(RebalanceCommand, NeedsFilesOrACluster) {
  const TempTree tree = files();
  const auto errors_of = [&tree](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"rebalance", "--policy-config-file", tree / "policy.yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran ran = run_forestall(arguments);
    EXPECT_EQ(ran.exit_code, 2);
    return ran.errors;
  };
  EXPECT_THAT(errors_of({}), HasSubstr("use --kubeconfig FILE, or --cluster FILE"));
  EXPECT_THAT(errors_of({"-o", "json"}), HasSubstr("use --cluster FILE"));
  EXPECT_THAT(errors_of({"--metrics", "m.json"}), HasSubstr("--metrics requires --cluster"));
  EXPECT_THAT(errors_of({"--leader-elect", "--kubeconfig", tree / "missing"}),
              HasSubstr("leaderElection must be used with deschedulingInterval"));
  EXPECT_THAT(errors_of({"--cluster", "c.json", "--leader-elect"}),
              HasSubstr("--cluster excludes --leader-elect"));
  EXPECT_THAT(errors_of({"--cluster", "c.json", "--descheduling-interval", "5m"}),
              HasSubstr("--cluster excludes --descheduling-interval"));
  EXPECT_THAT(errors_of({"--kubeconfig", tree / "nodes.json", "--descheduling-interval", "-1s"}),
              HasSubstr("--descheduling-interval"));
}

// The service account of the pod, as if the option were not given.
TEST(RebalanceCommand, AnEmptyKubeconfigIsNone) {
  const TempTree tree = files();
  const auto errors_of = [&tree](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"rebalance", "--policy-config-file", tree / "policy.yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran ran = run_forestall(arguments);
    EXPECT_EQ(ran.exit_code, 2);
    return ran.errors;
  };
  const char* const no_pod = "not in a pod of a cluster (KUBERNETES_SERVICE_HOST is not set)";
  EXPECT_THAT(errors_of({"--kubeconfig="}), HasSubstr(no_pod));
  EXPECT_THAT(errors_of({"--kubeconfig=", "--dry-run"}), HasSubstr(no_pod));
  EXPECT_THAT(errors_of({"--kubeconfig", "", "--dry-run"}), HasSubstr(no_pod));
  EXPECT_THAT(errors_of({"--client-connection-kubeconfig=", "--feature-gates=", "--v="}),
              HasSubstr(no_pod));
  EXPECT_THAT(errors_of({"--kubeconfig=a", "--kubeconfig="}), HasSubstr(no_pod))
      << "the last one counts";
  EXPECT_THAT(errors_of({"--kubeconfig=", "--context=c"}), HasSubstr("use --kubeconfig FILE"));
  for (const std::string option : {"--descheduling-interval", "--leader-elect-retry-period",
                                   "--leader-elect-resource-name", "--bind-address"}) {
    EXPECT_THAT(errors_of({option + "=", "--dry-run"}),
                AllOf(HasSubstr(option), HasSubstr("must not be empty")));
  }
}

// An empty history would end the protection against loops, and an empty time would be the present.
TEST(RebalanceCommand, AnEmptyFileOrTimeIsRefused) {
  const TempTree tree = files();
  const auto errors_of = [&tree](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"rebalance", "--policy-config-file", tree / "policy.yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran ran = run_forestall(arguments);
    EXPECT_EQ(ran.exit_code, 2);
    return ran.errors;
  };
  const auto refused = [](const std::string& option) {
    return AllOf(HasSubstr(option), HasSubstr("must not be empty"));
  };
  const std::string cluster = tree / "cluster.json";
  for (const std::string option : {"--history", "--now", "--metrics", "--cluster"}) {
    EXPECT_THAT(errors_of({"--cluster", cluster, option + "=", "--dry-run"}), refused(option));
    EXPECT_THAT(errors_of({"--cluster", cluster, option, "", "--dry-run"}), refused(option));
  }
  EXPECT_THAT(errors_of({"--cluster=", "--dry-run"}), refused("--cluster"));
  EXPECT_THAT(errors_of({"--prometheus-ca-file="}), refused("--prometheus-ca-file"));
  EXPECT_THAT(errors_of({"--policy-config-file="}), refused("--policy-config-file"));
  EXPECT_THAT(errors_of({"--prometheus-ca-file", tree / "none.pem"}),
              HasSubstr("File does not exist"));
}

TEST(RebalanceCommand, AcceptsTheArgumentsOfTheDeschedulersDeployment) {
  const TempTree tree = files();
  const auto run_with = [&tree](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"rebalance", "--policy-config-file", tree / "policy.yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_forestall(arguments);
  };
  const Ran ran = run_with({"--descheduling-interval=5m",
                            "--v=3",
                            "--vmodule=a=1",
                            "--logging-format=json",
                            "--secure-port=10258",
                            "--bind-address=127.0.0.1",
                            "--disable-metrics",
                            "--client-connection-qps=50",
                            "--client-connection-burst=100",
                            "--client-connection-kubeconfig",
                            tree / "missing",
                            "--leader-elect",
                            "--leader-elect-resource-lock=leases",
                            "--otel-sample-rate=0.5",
                            "--otel-fallback-no-op-on-error=true",
                            "--enable-http2=false",
                            "--tls-min-version=VersionTLS11",
                            "--cert-dir=/tmp",
                            "--tls-cipher-suites=TLS_AES_128_GCM_SHA256",
                            "--feature-gates=EvictionsInBackground=true"});
  EXPECT_EQ(ran.exit_code, 1) << ran.errors;
  EXPECT_THAT(ran.errors, HasSubstr("missing")) << "only the kubeconfig is wrong";
  for (const char* const wrong :
       {"--feature-gates=Other=true", "--tls-cert-file=a", "--secure-port=65536",
        "--leader-elect-resource-lock=endpoints", "--dry-run=yes", "--leader-elect=on",
        "--disable-metrics=2", "--enable-http2=no", "--permit-port-sharing=tRUE"}) {
    const Ran refused = run_with({"--kubeconfig", tree / "missing", wrong});
    EXPECT_EQ(refused.exit_code, 2) << wrong;
    const std::string name(wrong, std::string_view(wrong).find('='));
    EXPECT_THAT(refused.errors, HasSubstr(name));
  }
}

// The errors of `forestall rebalance` with these options. There is no cluster: what follows from
// the options is refused before it is missed.
std::string errors_with(const std::vector<std::string>& options) {
  const TempTree tree = files();
  std::vector<std::string> arguments{"rebalance", "--policy-config-file", tree / "policy.yaml",
                                     "--kubeconfig", tree / "missing"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_forestall(arguments).errors;
}

// Of --leader-elect without an interval, unless it is a dry run.
constexpr const char* kElects = "leaderElection must be used with deschedulingInterval";

// As pflag, so that a Deployment has the same meaning with both programs.
TEST(RebalanceCommand, FlagsHaveTheValuesOfGo) {
  for (const std::string word : {"1", "t", "T", "TRUE", "true", "True"}) {
    EXPECT_THAT(errors_with({"--leader-elect=" + word}), HasSubstr(kElects)) << word;
    EXPECT_THAT(errors_with({"--leader-elect", "--dry-run=" + word}), HasSubstr("/missing"))
        << word;
  }
  for (const std::string word : {"0", "f", "F", "FALSE", "false", "False"}) {
    EXPECT_THAT(errors_with({"--leader-elect=" + word}), HasSubstr("/missing")) << word;
    EXPECT_THAT(errors_with({"--leader-elect", "--dry-run=" + word}), HasSubstr(kElects)) << word;
  }
  for (const std::string flag :
       {"--dry-run", "--leader-elect", "--disable-metrics", "--enable-http2"}) {
    EXPECT_THAT(errors_with({flag + "=yes"}), HasSubstr(flag + ": yes is neither true nor false"));
    EXPECT_THAT(errors_with({flag + "="}), HasSubstr(flag + ": \"\" is neither true nor false"));
    EXPECT_THAT(errors_with({flag + "={}"}),
                HasSubstr(flag + ": \"{}\" is neither true nor false"));
  }
}

TEST(RebalanceCommand, OptionsOfTheElectionNeedNoElection) {
  EXPECT_THAT(errors_with({"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s",
                           "--leader-elect-retry-period=2s", "--leader-elect-resource-name=x",
                           "--leader-elect-resource-namespace=y"}),
              HasSubstr("/missing"));
}

// As pflag, which takes the last value, and joins lists and maps.
TEST(RebalanceCommand, OptionsMayBeRepeated) {
  EXPECT_THAT(errors_with({"--v=3", "--v=4", "--logging-format=json", "--logging-format=text"}),
              HasSubstr("/missing"));
  EXPECT_THAT(
      errors_with({"--leader-elect", "--descheduling-interval=5m", "--descheduling-interval=0"}),
      HasSubstr(kElects));
  EXPECT_THAT(errors_with({"--leader-elect", "--leader-elect=false"}), HasSubstr("/missing"));
  EXPECT_THAT(errors_with({"--feature-gates=AllBeta=true", "--feature-gates=AllAlpha=false"}),
              HasSubstr("/missing"));
  EXPECT_THAT(errors_with({"--feature-gates=Wrong=true", "--feature-gates=AllAlpha=false"}),
              HasSubstr("--feature-gates: "));
}

TEST(RebalanceCommand, APolicyThatIsRefusedIsAMistakeOfTheUser) {
  const TempTree tree{{"policy.yaml", "profiles:\n- name: q\n  pluginConfig:\n  - name: X\n"}};
  const Ran ran = run_forestall({"rebalance", "--policy-config-file", tree / "policy.yaml",
                                 "--kubeconfig", tree / "missing"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("policy.yaml:4:11: in profile q: plugin X in pluginConfig"));
}

TEST(RebalanceCommand, RefusesFilesWithThePlaceOfEachMistake) {
  const TempTree tree{{"policy.yaml", "profiles:\n- name: q\n  pluginConfig:\n  - name: X\n"},
                      {"pods.json", "{\"kind\": \"Pod\"}"}};
  const Ran ran = run_forestall({"rebalance", "--policy-config-file", tree / "policy.yaml",
                                 "--cluster", tree / "pods.json", "-o", "json"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("policy.yaml:4:11: in profile q: plugin X in pluginConfig"));
  EXPECT_THAT(ran.errors, HasSubstr("pods.json:1:1: Pod: 'metadata' is missing"));
  EXPECT_THAT(ran.output, HasSubstr("\"errors\": ["));
  EXPECT_THAT(ran.output, HasSubstr("policy.yaml:4:11\""));
  const Ran now = run_forestall({"rebalance", "--policy-config-file", tree / "policy.yaml",
                                 "--cluster", tree / "pods.json", "--now", "noon"});
  EXPECT_EQ(now.exit_code, 2);
  EXPECT_THAT(now.errors, HasSubstr("--now: expected a time"));
  EXPECT_THAT(now.output, IsEmpty());
}

// A cluster that is simulated in a moment.
std::vector<std::string> simulation(std::vector<std::string> more) {
  std::vector<std::string> arguments{"rebalance", "simulate", "--nodes", "4", "--hours", "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(SimulateCommand, ComparesTheBuiltInPolicies) {
  const Ran table = run_forestall(simulation({}));
  EXPECT_EQ(table.exit_code, 0) << table.errors;
  EXPECT_THAT(table.output, HasSubstr("hot node minutes"));
  EXPECT_THAT(table.output, HasSubstr("\n  LowNodeUtilization, fixed "));
  EXPECT_THAT(table.output, HasSubstr("\n  NodePressure "));
  const Ran json = run_forestall(simulation({"--seed", "7", "-o", "json"}));
  EXPECT_EQ(json.exit_code, 0) << json.errors;
  std::vector<text::Diagnostic> problems;
  ASSERT_TRUE(text::parse_json(json.output, {}, 1, problems)) << json.output;
  EXPECT_THAT(json.output, HasSubstr("\"seed\": 7,"));
  EXPECT_THAT(json.output, HasSubstr("\"evictionsAvoided\": "));
  EXPECT_EQ(run_forestall(simulation({"--seed", "7", "-o", "json"})).output, json.output);
}

TEST(SimulateCommand, WritesAPageOnce) {
  const TempTree tree = files();
  const std::string page = tree / "page.html";
  const auto arguments = simulation({"--policy", tree / "policy.yaml", "--page", page});
  const Ran first = run_forestall(arguments);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  const std::string written = read_text(page);
  EXPECT_THAT(written, testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(written, HasSubstr("policy.yaml</td>"));
  EXPECT_THAT(written, HasSubstr("<polyline class=\"line run0\""));
  EXPECT_THAT(written, HasSubstr("<h2>Evictions by the kubelet avoided, since the start</h2>"));
  const Ran second = run_forestall(arguments);
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.errors, HasSubstr("page.html exists; --force overwrites it"));
}

TEST(SimulateCommand, RefusesWhatItCannotUse) {
  const TempTree tree = files();
  const Ran cluster = run_forestall(simulation({"--cluster", tree / "nodes.json"}));
  EXPECT_EQ(cluster.exit_code, 2);
  EXPECT_THAT(cluster.errors, HasSubstr("--cluster"));
  const Ran interval = run_forestall(simulation({"--interval", "90"}));
  EXPECT_EQ(interval.exit_code, 2);
  EXPECT_THAT(interval.errors, HasSubstr("90 is not in whole minutes"));
  const Ran missing = run_forestall(simulation({"--policy", tree / "none.yaml"}));
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.errors, HasSubstr("none.yaml"));
}

TEST(CheckConfigCommand, PrintsTheEffectivePolicy) {
  const TempTree tree = files();
  const Ran ran =
      run_forestall({"check-config", "--policy-config-file", tree / "policy.yaml", "-o", "json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("\"numberOfNodes\": 0"));
  EXPECT_THAT(ran.output, HasSubstr("\"value\": 2000000000"));
}

}  // namespace
}  // namespace forestall::test
