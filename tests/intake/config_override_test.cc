// SPDX-License-Identifier: Apache-2.0
// A setting over a configuration in force has the effect that it has over the files which that
// configuration came from.
#include "intake/config_override.h"

#include <gtest/gtest.h>

#include <cmath>

#include "intake/config_file.h"

namespace forestall::test {
namespace {

// A configuration file, and kubelet's flags.
Config loaded(const std::string& text, const intake::GivenFlags& flags = {}) {
  intake::ConfigInputs inputs;
  inputs.config = "config.yaml";
  inputs.flags = flags;
  auto config =
      intake::load_config(inputs, [&](const std::string&) -> Result<std::string> { return text; });
  EXPECT_TRUE(config.ok()) << config.error().text();
  return config ? config->config : Config();
}

Result<intake::OverriddenConfig> with_flags(const Config& config, const intake::GivenFlags& flags) {
  auto settings = intake::read_settings("", flags);
  if (!settings) return settings.error();
  return intake::override_settings(config, *settings);
}

const std::vector<std::string> kFiles{
    "dryRun: false\n",
    "evictionHard: {}\n",
    "pods: {enabled: false}\nevictionHard: {memory.available: 100Mi}\n",
    "evictionHard: {pid.available: 7.5%, memory.available: 100.0%}\n"
    "evictionMinimumReclaim: {pid.available: 120%, memory.available: 1500M}\n"
    "kubeReserved: {memory: 1Gi, cpu: 500m}\n",
    "evictionHard: {memory.available: 1Gi, allocatableMemory.available: 2Gi}\n"
    "evictionSoft: {memory.available: 2Gi, nodefs.available: 20%}\n"
    "evictionSoftGracePeriod: {memory.available: 1m30s, nodefs.available: 0s}\n",
    "evictionHard: {memory.available: 1Gi}\n"
    "watch: [{cgroup: /a, available: 64Mi, capacity: 2Gi}, {cgroup: /b, available: 5%}]\n"
    "workloads: [{cgroup: /a/*, priority: 5}]\n"
    "untilOom: {available: 64Mi}\nownLimit: {burstable: evict}\nranking: kubelet+growth\n",
};

const std::vector<intake::GivenFlags> kFlags{
    {{"eviction-hard", {"memory.available<500Mi,nodefs.available<3%"}}},
    {{"eviction-hard", {""}}},
    {{"eviction-soft", {"memory.available<3Gi"}},
     {"eviction-soft-grace-period", {"memory.available=10s"}}},
    {{"enforce-node-allocatable", {"none"}}},
    {{"kube-reserved", {"memory=3Gi"}}},
    {{"eviction-max-pod-grace-period", {"30"}}, {"eviction-pressure-transition-period", {"30s"}}},
};

TEST(ConfigOverride, NoSettingChangesNothing) {
  for (const std::string& file : kFiles) {
    const Config config = loaded(file);
    const auto same = with_flags(config, {});
    ASSERT_TRUE(same.ok()) << file << same.error().text();
    EXPECT_TRUE(same->config == config) << file;
    EXPECT_TRUE(same->warnings.empty()) << same->warnings.front();
  }
}

TEST(ConfigOverride, AFlagHasItsEffectOverTheFile) {
  for (const std::string& file : kFiles) {
    for (const intake::GivenFlags& flags : kFlags) {
      const auto overridden = with_flags(loaded(file), flags);
      ASSERT_TRUE(overridden.ok()) << file << overridden.error().text();
      EXPECT_TRUE(overridden->config == loaded(file, flags))
          << file << "--" << flags.begin()->first << "=" << flags.begin()->second.front();
    }
  }
}

// Kubelet divides a 32-bit float by 100.
TEST(ConfigOverride, EveryPercentageStaysTheSame) {
  Threshold threshold;
  Config config;
  config.enforced.clear();
  for (float percent = 1e-6F; percent <= 100; percent = std::nextafter(percent * 1.0003F, 200.0F)) {
    threshold.limit = Limit::share(percent / 100);
    config.thresholds = {threshold};
    const auto same = with_flags(config, {});
    ASSERT_TRUE(same.ok()) << percent << same.error().text();
    ASSERT_TRUE(same->config == config) << percent;
  }
}

TEST(ConfigOverride, RefusesWhatDoesNotFit) {
  const Config config = loaded(kFiles[0]);
  EXPECT_EQ(with_flags(config, {{"eviction-soft", {"memory.available<3Gi"}}}).error().text(),
            "--eviction-soft: grace period must be specified for the soft eviction threshold "
            "memory.available; add it to 'evictionSoftGracePeriod'");
  const Config soft = loaded(kFiles[4]);
  EXPECT_EQ(
      with_flags(soft, {{"eviction-soft-grace-period", {"memory.available=1s"}}}).error().text(),
      "the configuration: grace period must be specified for the soft eviction threshold "
      "nodefs.available; add it to 'evictionSoftGracePeriod'");
}

TEST(ConfigOverride, WarnsOfItsSettingsOnly) {
  const auto overridden =
      with_flags(loaded(kFiles[3]), {{"eviction-hard", {"memory.available<500m"}}});
  ASSERT_TRUE(overridden.ok()) << overridden.error().text();
  ASSERT_EQ(overridden->warnings.size(), 1U);
  EXPECT_EQ(overridden->warnings.front(),
            "--eviction-hard: '500m' is not a whole number of bytes (m means one thousandth); did "
            "you mean '500Mi'?");
}

}  // namespace
}  // namespace forestall::test
