// SPDX-License-Identifier: Apache-2.0
// What a kubelet does with its own file, by its version.
#include "intake/kubelet_own_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forestall::intake {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Result<KubeletOwnConfig> own_config(const std::string& keys, KubeletMinor minor = std::nullopt) {
  return read_kubelet_own_config("kubelet.yaml", minor, [&](const std::string&) {
    return Result<std::string>(
        "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n" + keys);
  });
}

TEST(KubeletOwnConfig, HasTheThresholdsOfTheFileAndTheDefaultsOfTheVersion) {
  const auto given = own_config("evictionHard: {memory.available: 500Mi}\n");
  ASSERT_TRUE(given) << given.error().text();
  ASSERT_EQ(given->config.thresholds.size(), 2U);  // with its copy
  EXPECT_EQ(given->config.thresholds[0].limit, Limit::bytes(mib(500)));
  EXPECT_EQ(own_config("")->config.thresholds.size(), 6U);
  EXPECT_EQ(own_config("", 29)->config.thresholds.size(), 5U) << "without imagefs.inodesFree";
}

TEST(KubeletOwnConfig, WritesMemoryHighByGateFactorAndVersion) {
  const struct {
    const char* keys;
    KubeletMinor minor;
    std::optional<bool> writes;
    std::optional<double> factor;
  } table[] = {
      {"", std::nullopt, false, std::nullopt},
      {"", 36, false, std::nullopt},
      {"", 37, false, std::nullopt},
      {"featureGates: {MemoryQoS: false}\nmemoryThrottlingFactor: 0.8\n", std::nullopt, false,
       std::nullopt},
      {"memoryThrottlingFactor: 0.8\n", std::nullopt, std::nullopt, std::nullopt},
      {"memoryThrottlingFactor: 0.8\n", 36, false, std::nullopt},
      {"memoryThrottlingFactor: 0.8\n", 37, true, 0.8},
      {"featureGates: {MemoryQoS: true}\n", std::nullopt, std::nullopt, std::nullopt},
      {"featureGates: {MemoryQoS: true}\n", 36, true, 0.9},
      {"featureGates: {MemoryQoS: true}\n", 26, true, 0.8},
      {"featureGates: {MemoryQoS: true}\n", 37, false, std::nullopt},
      {"featureGates: {MemoryQoS: true}\nmemoryThrottlingFactor: 0.7\n", std::nullopt, true, 0.7},
  };
  for (const auto& each : table) {
    const auto own = own_config(each.keys, each.minor);
    ASSERT_TRUE(own) << own.error().text();
    EXPECT_EQ(own->writes_memory_high, each.writes) << each.keys << each.minor.value_or(0);
    EXPECT_EQ(own->throttling_factor, each.factor) << each.keys << each.minor.value_or(0);
  }
}

// The gate alone decides it: without a policy a current kubelet writes 0.
TEST(KubeletOwnConfig, WritesMemoryProtectionByGateAndVersion) {
  const struct {
    const char* keys;
    KubeletMinor minor;
    std::optional<bool> writes;
  } table[] = {
      {"", std::nullopt, std::nullopt},
      {"", 36, false},
      {"", 37, true},
      {"featureGates: {MemoryQoS: false}\n", std::nullopt, false},
      {"featureGates: {MemoryQoS: false}\n", 37, false},
      {"featureGates: {MemoryQoS: true}\n", std::nullopt, true},
      {"featureGates: {MemoryQoS: true}\n", 26, true},
  };
  for (const auto& each : table) {
    const auto own = own_config(each.keys, each.minor);
    ASSERT_TRUE(own) << own.error().text();
    EXPECT_EQ(own->writes_memory_protection, each.writes) << each.keys << each.minor.value_or(0);
  }
}

TEST(KubeletOwnConfig, ReportsMistakesOnce) {
  const auto eviction = own_config("evictionHard: {memory.available: lots}\n");
  ASSERT_FALSE(eviction);
  EXPECT_THAT(eviction.error().text(), StartsWith("kubelet.yaml:3:"));
  EXPECT_EQ(eviction.error().text().find('\n'), std::string::npos) << eviction.error().text();
  const auto factor = own_config("memoryThrottlingFactor: 2\n", 37);
  ASSERT_FALSE(factor);
  EXPECT_THAT(factor.error().text(), HasSubstr("'memoryThrottlingFactor' must be greater than 0"));
}

TEST(KubeletOwnConfig, IsNamedByTheConfigurationOfTheAgent) {
  const ReadFile read = [](const std::string& path) -> Result<std::string> {
    if (path == "dir/agent.yaml") {
      return std::string("kubeletConfig: kubelet.yaml\ncompat: {kubeletVersion: \"1.31\"}\n");
    }
    return std::string("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n");
  };
  const auto loaded = load_config({"dir/agent.yaml", "", {}}, read);
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_EQ(loaded->kubelet_config, "dir/kubelet.yaml");
  EXPECT_EQ(loaded->kubelet_minor, 31);
  EXPECT_EQ(load_config({"dir/agent.yaml", "other.yaml", {}}, read)->kubelet_config, "other.yaml");
  EXPECT_EQ(load_config({}, read)->kubelet_config, "");
}

}  // namespace
}  // namespace forestall::intake
