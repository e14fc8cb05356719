// SPDX-License-Identifier: Apache-2.0
#include "agent/remedy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forestall::agent {
namespace {

using testing::HasSubstr;

constexpr RemedyFacts kRootOnV1{true, kernel::CgroupVersion::v1};

TEST(Remedy, EveryFeatureThatIsNotInUseHasOne) {
  for (std::size_t i = 0; i < kFeatureCount; ++i) {
    for (const auto state :
         {FeatureState::absent, FeatureState::refused, FeatureState::forced_off}) {
      for (const bool bpf : {false, true}) {
        for (const auto cgroups : {kernel::CgroupVersion::v1, kernel::CgroupVersion::v2}) {
          EXPECT_NE(remedy({feature_at(i), state, "why"}, {bpf, cgroups}), "")
              << to_string(feature_at(i)) << " " << to_string(state);
        }
      }
    }
    EXPECT_EQ(remedy({feature_at(i), FeatureState::in_use, "why"}, kRootOnV1), "");
  }
}

// Root has every capability: to grant some would not help.
TEST(Remedy, OfTrampolinesThatTheKernelRefusesIsNoCapability) {
  const std::string evidence = "BPF program load failed: Operation not permitted";
  for (const auto feature : {Feature::bpf_charge, Feature::bpf_stall, Feature::bpf_oom_path}) {
    const std::string text = remedy({feature, FeatureState::refused, evidence}, kRootOnV1);
    EXPECT_THAT(text, HasSubstr("none by capabilities")) << to_string(feature);
    EXPECT_THAT(text, HasSubstr("fentry")) << to_string(feature);
    EXPECT_EQ(remedy({feature, FeatureState::refused, "bpf is refused"},
                     {false, kernel::CgroupVersion::v1}),
              "as for bpf");
  }
}

TEST(Remedy, NamesTheCapability) {
  EXPECT_THAT(remedy({Feature::pidfd, FeatureState::refused, ""}, kRootOnV1),
              HasSubstr("CAP_KILL"));
  EXPECT_THAT(remedy({Feature::bpf, FeatureState::refused, ""}, {}), HasSubstr("CAP_BPF"));
  EXPECT_THAT(remedy({Feature::memory_lock, FeatureState::refused, ""}, {}),
              HasSubstr("CAP_IPC_LOCK"));
}

TEST(Remedy, OfAFeatureThatIsOffIsTheSetting) {
  EXPECT_EQ(remedy({Feature::guard, FeatureState::forced_off, "not turned on (guard: on)"}, {}),
            "set guard: on");
  EXPECT_THAT(remedy({Feature::poll, FeatureState::forced_off, "disabled by the operator"}, {}),
              HasSubstr("disableFeatures"));
}

}  // namespace
}  // namespace forestall::agent
