// SPDX-License-Identifier: Apache-2.0
// The response to pressure of containers in a configuration, and the thresholds of the kubelet's
// file. tests/data/config/refused.txt has its errors.
#include "intake/container_pressure_section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "intake/config_file.h"

namespace forestall::intake {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kPressureHead =
    "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";

Result<LoadedConfig> load_pressure(const std::string& own, const std::string& kubelet = "") {
  return load_config({"config.yaml", "", {}}, [&](const std::string& path) {
    return Result<std::string>(path == "config.yaml" ? own : kPressureHead + kubelet);
  });
}

ContainerPressureConfig pressure_of(const std::string& own, const std::string& kubelet = "") {
  const auto loaded = load_pressure(own, kubelet);
  EXPECT_TRUE(loaded) << loaded.error().text();
  return loaded ? loaded->config.container_pressure : ContainerPressureConfig{};
}

TEST(ContainerPressureSection, IsOffWithoutAThreshold) {
  EXPECT_EQ(pressure_of("dryRun: false\n"), ContainerPressureConfig());
  const auto loaded = load_pressure("containerPressure: {memoryHighEvictionThreshold: 0}\n");
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_EQ(loaded->config.container_pressure, ContainerPressureConfig());
  EXPECT_THAT(loaded->warnings, Contains(HasSubstr("no threshold is above 0")));
}

TEST(ContainerPressureSection, HasEveryKey) {
  const auto loaded = load_pressure(
      "containerPressure: {mode: enforce, memoryHighEvictionThreshold: 10, "
      "memoryMaxEvictionThreshold: 0.5, memoryPSIEvictionThreshold: 40, stages: [lift, kill], "
      "memoryPressureEvictionGracePeriod: 1m, reclaimTime: 2s, liftTime: 3s, evictTime: 4s, "
      "calmTime: 1m, cgroups: [/db]}\nworkloads: [{cgroup: /db}]\n");
  ASSERT_TRUE(loaded) << loaded.error().text();
  ContainerPressureConfig expected;
  expected.enforces = true;
  expected.rule.thresholds = {10.0, 0.5, 40.0};
  expected.rule.stages.insert(PressureStage::lift);
  expected.rule.stages.insert(PressureStage::kill);
  expected.rule.grace = 1min;
  expected.rule.reclaim_time = 2s;
  expected.rule.lift_time = 3s;
  expected.rule.evict_time = 4s;
  expected.rule.calm_time = 1min;
  expected.cgroups = {"/db"};
  EXPECT_EQ(loaded->config.container_pressure, expected);
  EXPECT_THAT(loaded->warnings, IsEmpty());
}

TEST(ContainerPressureSection, OnlyObservesByDefault) {
  const auto pressure = pressure_of("containerPressure: {memoryMaxEvictionThreshold: 1}\n");
  EXPECT_FALSE(pressure.enforces);
  EXPECT_TRUE(pressure.rule.stages.contains(PressureStage::reclaim));
  EXPECT_TRUE(pressure.rule.stages.contains(PressureStage::lift));
  EXPECT_FALSE(pressure.rule.stages.contains(PressureStage::evict));
  EXPECT_FALSE(pressure.rule.stages.contains(PressureStage::kill));
}

TEST(ContainerPressureSection, TakesThresholdsOfTheKubeletsFile) {
  const std::string kubelet =
      "memoryHighEvictionThreshold: 5\nmemoryPSIEvictionThreshold: 30\n"
      "memoryMaxEvictionThreshold: 0\nmemoryPressureEvictionGracePeriod: 90s\n";
  const auto alone = pressure_of("kubeletConfig: kubelet.yaml\n", kubelet);
  EXPECT_THAT(alone.rule.thresholds, ElementsAre(5.0, std::nullopt, 30.0));
  EXPECT_EQ(alone.rule.grace, 90s);
  EXPECT_FALSE(alone.enforces) << "the agent's own file has no mode";
  const auto both = pressure_of(
      "kubeletConfig: kubelet.yaml\ncontainerPressure: {mode: enforce, "
      "memoryHighEvictionThreshold: 7, memoryPSIEvictionThreshold: 0}\n",
      kubelet);
  EXPECT_THAT(both.rule.thresholds, ElementsAre(7.0, std::nullopt, std::nullopt));
  EXPECT_TRUE(both.enforces);
}

TEST(ContainerPressureSection, OnlyWorkloadsCanBeEvicted) {
  const std::string cgroups =
      "containerPressure: {memoryHighEvictionThreshold: 1, cgroups: [/w/a, /kubepods/podx/c]";
  EXPECT_TRUE(load_pressure(cgroups + "}\n")) << "these stages need no workload";
  const auto refused = load_pressure(cgroups + ", stages: [evict]}\n");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("config.yaml:1:63: '/w/a' is no workload"));
  EXPECT_TRUE(load_pressure("workloads: [{cgroup: /w/*}]\n" + cgroups + ", stages: [kill]}\n"));
}

TEST(ContainerPressureSection, EnforceNeedsNoLiftBesideMemoryQos) {
  const std::string qos = "memoryQoS: enforce\n";
  EXPECT_FALSE(load_pressure(qos + "containerPressure: {mode: enforce, "
                                   "memoryMaxEvictionThreshold: 1}\n"));
  EXPECT_TRUE(load_pressure(qos + "containerPressure: {memoryMaxEvictionThreshold: 1}\n"));
  EXPECT_TRUE(load_pressure(qos + "containerPressure: {mode: enforce, stages: [reclaim], "
                                  "memoryMaxEvictionThreshold: 1}\n"));
}

}  // namespace
}  // namespace forestall::intake
