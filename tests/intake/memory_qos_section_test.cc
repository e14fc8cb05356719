// SPDX-License-Identifier: Apache-2.0
// The agent's own memory QoS in a configuration. tests/data/config/refused.txt has its errors.
#include "intake/memory_qos_section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "intake/config_file.h"

namespace forestall::intake {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kEverything =
    "memoryQoS: observe\nmemoryThrottlingFactor: 0.9\nmemoryReservationPolicy: TieredReservation\n"
    "memoryQoSCgroups: [{cgroup: /db, min: 1Gi, low: 2Gi, high: 4Gi}]\n";

LoadedConfig load_qos(const std::string& own, const std::string& kubelet = "") {
  const auto read = [&](const std::string& path) {
    return Result<std::string>(
        path == "config.yaml"
            ? own
            : "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n" + kubelet);
  };
  auto loaded = load_config({"config.yaml", "", {}}, read);
  EXPECT_TRUE(loaded) << loaded.error().text();
  return loaded ? *loaded : LoadedConfig{};
}

TEST(MemoryQosSection, IsOffByDefault) {
  EXPECT_EQ(load_qos("dryRun: false\n").config.memory_qos, MemoryQosConfig());
  EXPECT_EQ(load_qos("memoryQoS: \"off\"\n").config.memory_qos, MemoryQosConfig());
}

TEST(MemoryQosSection, HasEveryKey) {
  const auto loaded = load_qos(std::string(kEverything) +
                               "kubeletConfig: kubelet.yaml\ncompat: {kubeletVersion: \"1.36\"}\n");
  MemoryQosConfig expected;
  expected.mode = MemoryQosMode::observe;
  expected.throttling_factor = 0.9;
  expected.reservation = MemoryReservation::tiered;
  expected.kubelet_reserves = false;
  expected.kubelet_throttles = false;
  expected.cgroups = {{"/db", gib(1), gib(2), gib(4)}};
  EXPECT_EQ(loaded.config.memory_qos, expected);
  EXPECT_THAT(loaded.warnings, IsEmpty());
}

TEST(MemoryQosSection, WhatTheKubeletWritesComesFromItsOwnFile) {
  const auto by_gate = load_qos(std::string(kEverything) + "kubeletConfig: kubelet.yaml\n",
                                "featureGates: {MemoryQoS: true}\nmemoryThrottlingFactor: 0.5\n");
  EXPECT_EQ(by_gate.config.memory_qos.kubelet_reserves, true);
  EXPECT_EQ(by_gate.config.memory_qos.kubelet_throttles, true);
  EXPECT_EQ(by_gate.config.memory_qos.throttling_factor, 0.9) << "the agent's own";
}

TEST(MemoryQosSection, WithoutTheKubeletsFileItIsUnknown) {
  const auto loaded = load_qos(kEverything);
  EXPECT_EQ(loaded.config.memory_qos.kubelet_reserves, std::nullopt);
  EXPECT_EQ(loaded.config.memory_qos.kubelet_throttles, std::nullopt);
  EXPECT_THAT(loaded.warnings,
              Contains(HasSubstr("config.yaml:1:1: it is unknown whether the kubelet writes")));
}

TEST(MemoryQosSection, AnotherSettingOfMemoryHighIsReported) {
  std::string own = kEverything;
  own.replace(own.find("observe"), 7, "enforce");
  own += "kubeletConfig: kubelet.yaml\ncompat: {kubeletVersion: \"1.36\"}\n";
  const auto loaded = load_qos(own);
  EXPECT_EQ(loaded.config.memory_qos.mode, MemoryQosMode::enforce);
  EXPECT_THAT(loaded.warnings, IsEmpty());
  constexpr const char* kTwice = "config.yaml:1:1: 'tuneMemoryHigh' and the response slow";
  EXPECT_THAT(load_qos(own + "ownLimit: {other: slow}\n").warnings, Contains(HasSubstr(kTwice)));
  own.replace(own.find("enforce"), 7, "observe");
  EXPECT_THAT(load_qos(own + "ownLimit: {other: slow}\n").warnings,
              testing::Not(Contains(HasSubstr(kTwice))));
}

TEST(MemoryQosSection, SettingsWithoutEffectAreReported) {
  EXPECT_THAT(load_qos("memoryThrottlingFactor: 0.9\n").warnings,
              Contains(HasSubstr("has no effect: 'memoryQoS' is off")));
  EXPECT_THAT(load_qos("memoryQoS: observe\n").warnings,
              Contains(HasSubstr("has no effect: give 'memoryReservationPolicy'")));
}

}  // namespace
}  // namespace forestall::intake
