// SPDX-License-Identifier: Apache-2.0
// Memory QoS on cgroup v2, which the development host does not have: what `status` shows are the
// values of kubelet's formulas, next to what the kernel has.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "forestall/v1/status.pb.h"
#include "messages/json.h"
#include "support/agent_run.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::vm {
namespace {

using test::AgentRun;
using test::mounts;

constexpr Duration kQosPatience = std::chrono::seconds(90);
constexpr const char* kGuaranteed = "kubepods/pod11111111-aaaa-4ccc-8ddd-eeeeeeeeeeee";
constexpr const char* kBurstable = "kubepods/burstable/pod22222222-aaaa-4ccc-8ddd-eeeeeeeeeeee";
constexpr const char* kPods = R"({"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"g","namespace":"default",
"uid":"11111111-aaaa-4ccc-8ddd-eeeeeeeeeeee"},"spec":{"priority":0,"containers":[{"name":"app",
"resources":{"requests":{"cpu":"1","memory":"64Mi"},"limits":{"cpu":"1","memory":"64Mi"}}}]},
"status":{"phase":"Running","containerStatuses":[{"name":"app",
"containerID":"containerd://c0ffee1"}]}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","namespace":"default",
"uid":"22222222-aaaa-4ccc-8ddd-eeeeeeeeeeee"},"spec":{"priority":0,"containers":[{"name":"app",
"resources":{"requests":{"memory":"128Mi"},"limits":{"memory":"256Mi"}}}]},
"status":{"phase":"Running","containerStatuses":[{"name":"app",
"containerID":"containerd://c0ffee2"}]}}]})";

class MemoryQos : public ::testing::Test {
 protected:
  void SetUp() override {
    if (mounts().v1)
      GTEST_SKIP() << "not applicable: cgroup v1 has no memory.min; 6.12 v2 runs this";
    for (const auto& each : {std::string(kGuaranteed) + "/c0ffee1",
                             std::string(kBurstable) + "/c0ffee2", std::string("db")}) {
      scratch_.child(each);
    }
    files_.write("pods.json", kPods);
    files_.write("kubelet.yaml",
                 "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
                 "featureGates: {MemoryQoS: false}\n");
  }

  [[nodiscard]] std::string config() const {
    return fmt::format(
        "evictionHard: {{}}\nrecheckInterval: 200ms\npodList: {}\nkubeletConfig: {}\n"
        "pods: {{cgroupRoot: {}}}\nmemoryQoS: observe\nmemoryThrottlingFactor: 0.9\n"
        "memoryReservationPolicy: TieredReservation\n"
        "memoryQoSCgroups: [{{cgroup: {}/db, min: 32Mi, high: 1Gi}}]\n",
        files_ / "pods.json", files_ / "kubelet.yaml", scratch_.path(), scratch_.path());
  }
  [[nodiscard]] std::string path(const std::string& below) const {
    return scratch_.path() + "/" + below;
  }

  // The first status with values; the agent computes them on a thread of its own.
  static v1::MemoryQosStatus wait_values(AgentRun& agent) {
    for (const auto end = SystemClock().now() + kQosPatience; SystemClock().now() < end;) {
      const auto ran =
          test::run_forestall({"status", "--run-dir", agent.directory() / "", "-o", "json"});
      v1::AgentStatus status;
      if (!messages::from_json(ran.output, status)) continue;
      if (status.memory_qos().values_size() > 0) return status.memory_qos();
    }
    return {};
  }
  // "<cgroup below the scratch cgroup> <file> <present> <wanted> <state>"
  [[nodiscard]] std::vector<std::string> rows(const v1::MemoryQosStatus& status) const {
    std::vector<std::string> rows;
    for (const auto& each : status.values()) {
      rows.push_back(fmt::format("{} {} {} {} {}", each.cgroup().substr(scratch_.path().size() + 1),
                                 each.file(), each.present(), each.wanted(), each.state()));
    }
    return rows;
  }

  test::ScratchCgroup scratch_;
  test::TempTree files_;
};

TEST_F(MemoryQos, ObserveShowsTheValuesOfTheFormulasAndWritesNothing) {
  scratch_.write(path(kGuaranteed), "memory.min", "67108864");
  AgentRun agent(config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto status = wait_values(agent);
  EXPECT_EQ(status.mode(), "observe");
  EXPECT_EQ(status.unknown_pods(), 0U);
  const std::string guaranteed = kGuaranteed;
  const std::string burstable = kBurstable;
  EXPECT_THAT(rows(status), testing::UnorderedElementsAre(
                                "kubepods memory.min 0 201326592 would-write",
                                "kubepods/burstable memory.low 0 134217728 would-write",
                                guaranteed + " memory.min 67108864 67108864 equal",
                                guaranteed + "/c0ffee1 memory.min 0 67108864 would-write",
                                burstable + " memory.low 0 134217728 would-write",
                                burstable + "/c0ffee2 memory.low 0 134217728 would-write",
                                burstable + "/c0ffee2 memory.high max 255012864 would-write",
                                "db memory.min 0 33554432 would-write",
                                "db memory.high max 1073741824 would-write"));
  EXPECT_EQ(scratch_.read(path("kubepods"), "memory.min"), "0\n");
  EXPECT_EQ(scratch_.read(path(burstable + "/c0ffee2"), "memory.high"), "max\n");
  EXPECT_EQ(scratch_.read(path("db"), "memory.min"), "0\n");
}

TEST_F(MemoryQos, WhatTheKubeletWritesIsLeftToIt) {
  files_.write("kubelet.yaml",
               "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
               "featureGates: {MemoryQoS: true}\nmemoryThrottlingFactor: 0.8\n");
  AgentRun agent(config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto status = wait_values(agent);
  ASSERT_EQ(status.values_size(), 9);
  for (const auto& each : status.values()) {
    const bool of_pods = !each.cgroup().ends_with("/db");
    EXPECT_EQ(each.state(), of_pods ? "left" : "would-write") << each.cgroup();
    EXPECT_EQ(each.reason(), of_pods ? "the kubelet writes it" : "") << each.cgroup();
  }
}

}  // namespace
}  // namespace forestall::vm
