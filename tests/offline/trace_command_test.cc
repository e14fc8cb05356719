// SPDX-License-Identifier: Apache-2.0
// `forestall rebalance simulate --trace`: the files of a recorded cluster.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/agent_run.h"
#include "text/json_tree.h"

namespace forestall::cli::test {
namespace {

using forestall::test::Ran;
using forestall::test::run_forestall;
using forestall::test::TempTree;
using testing::HasSubstr;
using testing::Not;

// Plans by measured memory.
constexpr const char* kMeasuredPolicy = R"(compat: fixed
metricsProviders: [{source: KubernetesMetrics}]
profiles:
- name: p
  pluginConfig:
  - name: LowNodeUtilization
    args:
      thresholds: {memory: 40}
      targetThresholds: {memory: 80}
      metricsUtilization: {source: KubernetesMetrics}
  plugins: {balance: {enabled: [LowNodeUtilization]}}
)";

std::string node_of(const std::string& name) {
  return fmt::format(R"({{"kind": "Node", "metadata": {{"name": "{}"}}, "status": {{)"
                     R"("allocatable": {{"cpu": "8", "memory": "1000Mi", "pods": "10"}}}}}})",
                     name);
}

std::string pod_of(const std::string& name) {
  return fmt::format(
      R"({{"kind": "Pod", "metadata": {{"name": "{0}", "namespace": "d", "uid": "u-{0}", )"
      R"("ownerReferences": [{{"kind": "ReplicaSet", "name": "r", "uid": "r"}}]}}, "spec": )"
      R"({{"nodeName": "n1", "containers": [{{"name": "c"}}]}}, "status": {{"phase": )"
      R"("Running"}}}})",
      name);
}

std::string list_of(const std::vector<std::string>& items) {
  return fmt::format(R"({{"kind": "List", "items": [{}]}})", fmt::join(items, ", "));
}

// n1 is hot by what its pods use.
std::string objects() {
  return list_of({node_of("n1"), node_of("n2"), pod_of("a"), pod_of("b")});
}

std::string samples() {
  const auto sample = [](const char* kind, const char* name, const char* use) {
    return fmt::format(R"({{"kind": "{}", "metadata": {{"name": "{}", "namespace": "d"}}, {}}})",
                       kind, name, use);
  };
  return list_of(
      {sample("NodeMetrics", "n1", R"("usage": {"cpu": "1", "memory": "950Mi"})"),
       sample("NodeMetrics", "n2", R"("usage": {"cpu": "1", "memory": "100Mi"})"),
       sample("PodMetrics", "a", R"("containers": [{"usage": {"cpu": "1", "memory": "300Mi"}}])"),
       sample("PodMetrics", "b", R"("containers": [{"usage": {"cpu": "1", "memory": "500Mi"}}])")});
}

void write_state(const TempTree& tree, const std::string& name) {
  tree.write("trace/" + name + ".json", objects());
  tree.write("trace/" + name + "-metrics.json", samples());
}

// Three states, five minutes apart, with names of both forms.
void write_trace(const TempTree& tree) {
  tree.write("policy.yaml", kMeasuredPolicy);
  write_state(tree, "2026-01-01T00:00:00Z");
  write_state(tree, "1767225900");
  write_state(tree, "2026-01-01T01:10:00+01:00");
}

Ran simulate_trace(const TempTree& tree, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"rebalance", "simulate", "--policy", tree / "policy.yaml"};
  if (std::ranges::find(more, "--trace") == more.end()) {
    arguments.insert(arguments.end(), {"--trace", tree / "trace"});
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_forestall(arguments);
}

void expect_refused(const Ran& ran, const std::string& problem) {
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr(problem));
}

TEST(TraceCommand, AMovedPodStaysMoved) {
  const TempTree tree;
  write_trace(tree);
  const Ran ran = simulate_trace(tree, {"-o", "json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  std::vector<text::Diagnostic> problems;
  ASSERT_TRUE(text::parse_json(ran.output, {}, 1, problems)) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr(R"("states": 3)"));
  EXPECT_THAT(ran.output, HasSubstr(R"("to": "2026-01-01T00:10:00.000Z")"));
  EXPECT_THAT(ran.output, HasSubstr(R"("leftOut": [])"));
  EXPECT_THAT(ran.output, HasSubstr(R"("evictionsAvoided": null)"));
  EXPECT_THAT(ran.output, Not(HasSubstr(R"("kills": 0)")));
  // n1 is hot for ten minutes in the recording, and for five with the policy.
  EXPECT_THAT(ran.output, HasSubstr(R"("hotNodeMinutes": 10)"));
  EXPECT_THAT(ran.output, HasSubstr(R"("hotNodeMinutes": 5)"));
  EXPECT_THAT(ran.output, Not(HasSubstr(R"("moves": 2)")));
}

constexpr const char* kLifePolicy = R"(profiles:
- name: p
  pluginConfig: [{name: PodLifeTime, args: {maxPodLifeTimeSeconds: 60}}]
  plugins: {deschedule: {enabled: [PodLifeTime]}}
)";

// The policy moves pods that nothing measures.
TEST(TraceCommand, NodesWithoutAMeasurementMayBeHot) {
  const TempTree tree{{"policy.yaml", kLifePolicy}};
  std::string state = objects();
  state.insert(state.find(R"("namespace")"), R"("creationTimestamp": "2025-12-31T00:00:00Z", )");
  for (const char* const time : {"2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z", "1767226200"}) {
    tree.write(fmt::format("trace/{}.json", time), state);
    const std::string all = samples();
    tree.write(fmt::format("trace/{}-nodes.json", time),
               all.substr(0, all.find(R"(, {"kind": "PodMetrics")")) + "]}");
  }
  const Ran ran = simulate_trace(tree, {"-o", "json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  const std::string moved = ran.output.substr(ran.output.find("policy.yaml"));
  for (const char* const each :
       {R"("hotNodeMinutes": 5,)", R"("hotNodeMinutesMost": 15,)", R"("unknownNodeMinutes": 10,)",
        R"("comparedNodeMinutes": 10,)", R"("comparedHotNodeMinutes": 5,)",
        R"("plansWithMoreHotNodes": null)", R"("comparedHotNodes": null)"}) {
    EXPECT_THAT(moved, HasSubstr(each));
  }
  const Ran table = simulate_trace(tree);
  EXPECT_THAT(table.output, testing::ContainsRegex("none +10 +5 of 10 "));
  EXPECT_THAT(table.output, testing::ContainsRegex("policy.yaml +5 to 15 +5 of 10 "));
}

TEST(TraceCommand, ADirectoryMayBeAState) {
  const TempTree tree;
  write_trace(tree);
  const TempTree other{{"policy.yaml", kMeasuredPolicy}};
  for (const char* const time : {"2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z", "1767226200"}) {
    other.write(fmt::format("trace/{}/objects.json", time), objects());
    other.write(fmt::format("trace/{}/metrics.json", time), samples());
  }
  const Ran ran = simulate_trace(other);
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  const std::string files = simulate_trace(tree).output;
  EXPECT_NE(files.find("unknown"), std::string::npos);
  // The names of the policies differ.
  EXPECT_EQ(ran.output.substr(ran.output.rfind("yaml")), files.substr(files.rfind("yaml")));
}

TEST(TraceCommand, ThePageAndTheTablePrintWhatIsUnknown) {
  const TempTree tree;
  write_trace(tree);
  const Ran ran = simulate_trace(tree, {"--page", tree / "page.html"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, testing::ContainsRegex("none +10 +10 of 20 +unknown +unknown"));
  const std::string page = forestall::test::read_text(tree / "page.html");
  EXPECT_THAT(page,
              HasSubstr("3 states from 2026-01-01T00:00:00.000Z to 2026-01-01T00:10:00.000Z"));
  EXPECT_THAT(page, HasSubstr("No state has NodeReports"));
  EXPECT_THAT(page, HasSubstr("<h2>Kills by the kernel avoided, since the start</h2><p>unknown"));
}

TEST(TraceCommand, ALastStateThatIsCutOffIsLeftOutAndNamed) {
  const TempTree tree;
  write_trace(tree);
  const std::string whole = objects();
  tree.write("trace/2026-01-01T00:15:00Z.json", whole.substr(0, whole.size() / 2));
  const Ran ran = simulate_trace(tree, {"--page", tree / "page.html"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  const Ran json = simulate_trace(tree, {"-o", "json"});
  EXPECT_THAT(json.output, HasSubstr(R"("states": 3)"));
  EXPECT_THAT(json.output, HasSubstr("2026-01-01T00:15:00Z.json:1:"));
  for (const std::string& each :
       {ran.output, json.errors, forestall::test::read_text(tree / "page.html")}) {
    EXPECT_THAT(each, HasSubstr("The last state was left out: "));
    EXPECT_THAT(each, HasSubstr("2026-01-01T00:15:00Z.json:1:"));
  }
  // Another state must be whole.
  write_state(tree, "2026-01-01T00:20:00Z");
  expect_refused(simulate_trace(tree), "2026-01-01T00:15:00Z.json:1:");
}

// Moves would end with the pods.
TEST(TraceCommand, AStateThatLostItsPodsIsRefused) {
  const TempTree tree;
  write_trace(tree);
  tree.write("trace/1767225900.json", list_of({node_of("n1"), node_of("n2")}));
  expect_refused(simulate_trace(tree),
                 "1767225900.json: the state has no pods, and the one before it has 2");
  // As the last state it is left out.
  write_state(tree, "1767225900");
  tree.write("trace/2026-01-01T01:10:00+01:00.json", list_of({node_of("n1"), node_of("n2")}));
  const Ran ran = simulate_trace(tree);
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("The last state was left out: "));
  EXPECT_THAT(ran.output, HasSubstr("the state has no pods"));
}

TEST(TraceCommand, AClusterMayHaveNoPodsYet) {
  const TempTree tree;
  write_trace(tree);
  tree.write("trace/2025-12-31T23:55:00Z.json", list_of({node_of("n1"), node_of("n2")}));
  EXPECT_EQ(simulate_trace(tree).exit_code, 0);
}

TEST(TraceCommand, RefusesGapsUnlessTheyAreAllowed) {
  const TempTree tree;
  write_trace(tree);
  write_state(tree, "2026-01-01T00:25:01Z");
  expect_refused(simulate_trace(tree),
                 "00:25:01Z-metrics.json: 901 s after the state before it, of at most 900 s: "
                 "states are missing; --max-gap 901");
  EXPECT_EQ(simulate_trace(tree, {"--max-gap", "901"}).exit_code, 0);
  expect_refused(simulate_trace(tree, {"--max-gap", "299"}), "of at most 299 s");
}

TEST(TraceCommand, RefusesWhatIsNoTrace) {
  const TempTree tree;
  write_trace(tree);
  const std::string first = tree / "trace/2026-01-01T00:00:00Z.json";
  const std::string second = tree / "trace/1767225900.json";
  expect_refused(simulate_trace(tree, {"--trace", second, first}), "is of an earlier time than");
  expect_refused(simulate_trace(tree, {"--trace", first, first}), "is given twice");
  expect_refused(simulate_trace(tree, {"--trace", first}), "two states or more");
  expect_refused(simulate_trace(tree, {"--trace", tree / "absent"}), "absent: does not exist");
  expect_refused(simulate_trace(tree, {"--trace", first, tree / "policy.yaml"}),
                 "policy.yaml: its name does not begin with a time");
  expect_refused(simulate_trace(tree, {"--nodes", "5"}), "--nodes");
  expect_refused(run_forestall({"rebalance", "simulate", "--max-gap", "5"}), "--trace");
  tree.write("trace/2026-01-01T00:05:00Z-copy.json", list_of({pod_of("a")}));
  expect_refused(simulate_trace(tree), "the state has Pod d/a twice");
  tree.write("trace/2026-01-01T00:05:00Z-copy.json", list_of({node_of("n2")}));
  expect_refused(simulate_trace(tree), "the state has Node n2 twice");
  tree.write("trace/2026-01-01T00:05:00Z-copy.json", "");
  tree.write("trace/1767225900.json", list_of({pod_of("a")}));
  expect_refused(simulate_trace(tree), "the state has no nodes");
}

}  // namespace
}  // namespace forestall::cli::test
