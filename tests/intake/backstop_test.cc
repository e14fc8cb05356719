// SPDX-License-Identifier: Apache-2.0
#include "intake/backstop.h"

#include <gtest/gtest.h>

#include "intake/config_text.h"

namespace forestall::intake {
namespace {

LoadedConfig with_backstop(const std::string& text) {
  auto loaded = test::load_text(text, read_text_file);
  EXPECT_TRUE(loaded) << loaded.error().text();
  add_backstop({mib(85), gib(20), gib(4).count}, *loaded);
  return std::move(loaded).value();
}

std::vector<Threshold> until_oom(const LoadedConfig& loaded) {
  std::vector<Threshold> found;
  for (const Threshold& each : loaded.config.thresholds) {
    if (each.signal == Signal::memory_until_oom) found.push_back(each);
  }
  return found;
}

TEST(BackstopLine, IsTheLowWatermarksAndWhatIsFilledInTenMilliseconds) {
  EXPECT_EQ(backstop_line({mib(85), gib(20), mib(4000).count}), mib(125));
}

TEST(BackstopLine, IsBoundedBothWays) {
  EXPECT_EQ(backstop_line({mib(1), gib(4), 0}), mib(16));
  EXPECT_EQ(backstop_line({gib(6), gib(64), gib(16).count}), gib(1)) << "watermark_scale_factor";
  EXPECT_EQ(backstop_line({mib(40), gib(1), gib(4).count}), mib(51));
  EXPECT_EQ(backstop_line({mib(40), mib(64), gib(4).count}), mib(16));
}

TEST(Backstop, IsAHardThresholdByDefault) {
  const LoadedConfig loaded = with_backstop("{}");
  const auto thresholds = until_oom(loaded);
  ASSERT_EQ(thresholds.size(), 1u);
  EXPECT_TRUE(thresholds[0].hard());
  EXPECT_EQ(thresholds[0].response, Response::evict);
  EXPECT_EQ(thresholds[0].limit.of(gib(20).count).bytes(),
            backstop_line({mib(85), gib(20), gib(4).count}));
  ASSERT_EQ(loaded.origins.size(), loaded.config.thresholds.size());
  EXPECT_EQ(text::to_string(loaded.origins.back().origin), "backstop");
}

TEST(Backstop, IsThereWithoutOtherThresholdsAndInADryRun) {
  EXPECT_EQ(until_oom(with_backstop("evictionHard: {}")).size(), 1u);
  EXPECT_EQ(until_oom(with_backstop("dryRun: true")).size(), 1u);
}

TEST(Backstop, GivesWayToTheOperatorsOwn) {
  const auto own = until_oom(with_backstop("untilOom: {available: 64Mi}"));
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own[0].limit, Limit::bytes(mib(64)));
  EXPECT_TRUE(until_oom(with_backstop("untilOom: {available: 0%}")).empty());
}

// An agent that is to act as one version of the kubelet does has no threshold of another.
TEST(Backstop, CompatSwitchesItOff) {
  EXPECT_TRUE(until_oom(with_backstop("compat: {kubeletVersion: \"1.26\"}")).empty());
  EXPECT_TRUE(until_oom(with_backstop("compat: {hardAtOnce: false}")).empty());
}

}  // namespace
}  // namespace forestall::intake
