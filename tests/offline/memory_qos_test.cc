// SPDX-License-Identifier: Apache-2.0
// `forestall qos --memory-qos`: files in, JSON out.
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

constexpr const char* kPods = R"({"kind": "List", "items": [
  {"kind": "Pod", "metadata": {"uid": "1", "name": "b", "namespace": "x"}, "spec": {"containers": [
    {"name": "c", "resources": {"requests": {"memory": "128Mi"}, "limits": {"memory": "256Mi"}}},
    {"name": "free"}]}},
  {"kind": "Pod", "metadata": {"uid": "2", "name": "g", "namespace": "x"}, "spec": {"containers": [
    {"name": "c", "resources": {"requests": {"memory": "1Gi", "cpu": "1"},
                                "limits": {"memory": "1Gi", "cpu": "1"}}}]}}]})";
constexpr const char* kKubelet =
    "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"
    "memoryThrottlingFactor: 0.9\nmemoryReservationPolicy: TieredReservation\n"
    "kubeReserved: {memory: 1Gi}\nsystemReserved: {memory: 1Gi}\n";

text::JsonNode parsed(const std::string& output) {
  std::vector<text::Diagnostic> problems;
  auto root = text::parse_json(output, {}, 1, problems);
  EXPECT_TRUE(root) << output;
  return root.value_or(text::JsonNode{});
}

// The value at a path of keys and indices, as text: "null", "max", "12".
std::string at(const text::JsonNode& root, const std::vector<std::string>& path) {
  const text::JsonNode* node = &root;
  for (const std::string& key : path) {
    if (node->kind == text::JsonNode::Kind::list) {
      node = &node->items.at(std::stoul(key));
    } else {
      node = node->find(key);
      if (node == nullptr) return "no " + key;
    }
  }
  return node->kind == text::JsonNode::Kind::string ? node->text : text::describe(*node);
}

std::vector<std::string> arguments(const TempTree& tree, std::vector<std::string> more) {
  std::vector<std::string> all{"qos", "--memory-qos", "--pods", tree / "pods.json"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

text::JsonNode json(const std::vector<std::string>& given) {
  std::vector<std::string> all = given;
  all.insert(all.end(), {"-o", "json"});
  const Ran ran = run_forestall(all);
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  return parsed(ran.output);
}

TEST(MemoryQosCommand, PrintsPodsAndLevels) {
  const TempTree tree{{"pods.json", kPods}, {"kubelet.yaml", kKubelet}};
  const auto report =
      json(arguments(tree, {"--memory-capacity", "10Gi", "--kubelet-config", tree / "kubelet.yaml",
                            "--kubelet-version", "1.37", "--page-size", "4096"}));
  EXPECT_EQ(at(report, {"pods", "0", "pod", "namespace"}), "x");
  EXPECT_EQ(at(report, {"pods", "0", "qosClass"}), "Burstable");
  EXPECT_EQ(at(report, {"pods", "0", "min"}), "null");
  EXPECT_EQ(at(report, {"pods", "0", "low"}), "134217728");
  EXPECT_EQ(at(report, {"pods", "0", "containers", "0", "high"}), "255012864");
  // 0.9 of 8Gi, in whole pages
  EXPECT_EQ(at(report, {"pods", "0", "containers", "1", "high"}), "7730937856");
  EXPECT_EQ(at(report, {"pods", "1", "min"}), "1073741824");
  EXPECT_EQ(at(report, {"pods", "1", "containers", "0", "low"}), "0");
  EXPECT_EQ(at(report, {"pods", "1", "containers", "0", "high"}), "null");
  EXPECT_EQ(at(report, {"levels", "burstable", "low"}), "134217728");
  EXPECT_EQ(at(report, {"levels", "burstable", "min"}), "null");
  EXPECT_EQ(at(report, {"levels", "kubepods", "min"}), "1207959552");
}

TEST(MemoryQosCommand, AllocatableMayBeGiven) {
  const TempTree tree{{"pods.json", kPods}, {"kubelet.yaml", kKubelet}};
  const auto known = json(arguments(tree, {"--node-allocatable", "8Gi", "--kubelet-config",
                                           tree / "kubelet.yaml", "--kubelet-version", "v1.37.1"}));
  EXPECT_EQ(at(known, {"pods", "0", "containers", "1", "high"}), "7730937856");
  const auto unknown =
      json(arguments(tree, {"--node-allocatable", "0", "--kubelet-config", tree / "kubelet.yaml"}));
  EXPECT_EQ(at(unknown, {"pods", "0", "containers", "1", "high"}), "null");
  const auto old =
      json(arguments(tree, {"--node-allocatable", "8Gi", "--kubelet-version", "1.35"}));
  EXPECT_EQ(at(old, {"pods", "0", "min"}), "134217728");
  EXPECT_EQ(at(old, {"pods", "0", "low"}), "null");
  EXPECT_EQ(at(old, {"pods", "0", "containers", "1", "min"}), "null");
}

TEST(MemoryQosCommand, ADisabledGateLiftsTheThrottle) {
  const TempTree tree{
      {"pods.json", kPods},
      {"kubelet.yaml", std::string(kKubelet) + "featureGates: {MemoryQoS: false}\n"}};
  const auto report = json(
      arguments(tree, {"--memory-capacity", "10Gi", "--kubelet-config", tree / "kubelet.yaml"}));
  EXPECT_EQ(at(report, {"pods", "0", "containers", "0", "high"}), "max");
  EXPECT_EQ(at(report, {"levels", "kubepods", "min"}), "0");
}

TEST(MemoryQosCommand, TextIsATable) {
  const TempTree tree{{"pods.json", kPods}};
  const Ran ran =
      run_forestall(arguments(tree, {"--node-allocatable", "8Gi", "--kubelet-version", "1.36"}));
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("memory.high"));
  EXPECT_THAT(ran.output, HasSubstr("255012864"));
}

TEST(MemoryQosCommand, MistakesAreRefusedInBothForms) {
  const TempTree tree{{"pods.json", "{\"kind\": \"List\",\n oops}"},
                      {"kubelet.yaml", std::string(kKubelet) + "memoryThrottlingFactor: 3\n"},
                      {"good.json", kPods}};
  const Ran broken = run_forestall({"qos", "--memory-qos", "--pods", tree / "pods.json",
                                    "--node-allocatable", "1Gi", "-o", "json"});
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_THAT(broken.errors, HasSubstr("pods.json:2:2: "));
  EXPECT_THAT(at(parsed(broken.output), {"errors", "0", "place"}), HasSubstr("pods.json:2:2"));
  const Ran option =
      run_forestall({"qos", "--memory-qos", "--pods", tree / "good.json", "--memory-capacity",
                     "lots", "--kubelet-version", "2.0", "--page-size", "0", "-o", "json"});
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_EQ(parsed(option.output).find("errors")->items.size(), 3U);
  EXPECT_EQ(run_forestall({"qos", "--memory-qos", "--pods", tree / "good.json"}).exit_code, 2);
  EXPECT_EQ(
      run_forestall({"qos", "--pods", tree / "good.json", "--node-allocatable", "1Gi"}).exit_code,
      2);
}

}  // namespace
}  // namespace forestall::test
