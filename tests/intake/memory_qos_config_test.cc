// SPDX-License-Identifier: Apache-2.0
// Memory QoS of a KubeletConfiguration.
#include "intake/memory_qos_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forestall::intake {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kHead =
    "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";

struct Outcome {
  MemoryQosSettings settings;
  std::vector<std::string> errors;
  std::vector<std::string> warnings;
};

Outcome read(const std::string& keys, std::optional<Bytes> capacity = std::nullopt,
             int minor = 37) {
  text::Findings findings;
  Outcome outcome;
  outcome.settings.kubelet_minor = minor;
  outcome.settings.throttling_factor = default_throttling_factor(minor);
  read_memory_qos_config(kHead + keys, "kubelet.yaml", capacity, outcome.settings, findings);
  outcome.errors = text::format_each(findings.errors);
  outcome.warnings = text::format_each(findings.warnings);
  return outcome;
}

TEST(MemoryQosConfig, DefaultsDependOnTheVersion) {
  EXPECT_EQ(read("").settings.throttling_factor, std::nullopt);
  EXPECT_EQ(read("", std::nullopt, 36).settings.throttling_factor, 0.9);
  EXPECT_EQ(read("", std::nullopt, 27).settings.throttling_factor, 0.9);
  EXPECT_EQ(read("", std::nullopt, 26).settings.throttling_factor, 0.8);
  EXPECT_TRUE(read("").settings.enabled);
  EXPECT_EQ(read("").settings.reservation, MemoryReservation::none);
}

TEST(MemoryQosConfig, ReadsItsKeys) {
  const Outcome outcome = read(
      "memoryThrottlingFactor: 0.6\nmemoryReservationPolicy: TieredReservation\n"
      "featureGates:\n  MemoryQoS: false\n  Other: true\n");
  EXPECT_THAT(outcome.errors, IsEmpty());
  EXPECT_EQ(outcome.settings.throttling_factor, 0.6);
  EXPECT_EQ(outcome.settings.reservation, MemoryReservation::tiered);
  EXPECT_FALSE(outcome.settings.enabled);
  EXPECT_EQ(read("memoryThrottlingFactor: 1\n").settings.throttling_factor, 1);
  EXPECT_EQ(read("memoryThrottlingFactor: null\n").settings.throttling_factor, std::nullopt);
}

// getNodeAllocatableInternalAbsolute(): without the eviction threshold, and never below 0.
TEST(MemoryQosConfig, AllocatableIsCapacityMinusReservations) {
  const std::string reserved =
      "kubeReserved:\n  memory: 1Gi\nsystemReserved:\n  memory: 512Mi\n"
      "evictionHard:\n  memory.available: 2Gi\n";
  EXPECT_EQ(read(reserved, Bytes{8LL << 30}).settings.node_allocatable, (8LL << 30) - (1536 << 20));
  EXPECT_EQ(read(reserved, Bytes{1 << 20}).settings.node_allocatable, 0);
  EXPECT_EQ(read(reserved, Bytes{0}).settings.node_allocatable, 0);
  EXPECT_EQ(read(reserved).settings.node_allocatable, 0);
}

TEST(MemoryQosConfig, MistakesAreRefusedWithTheirPlace) {
  EXPECT_THAT(read("memoryThrottlingFactor: 1.5\n").errors,
              ElementsAre("kubelet.yaml:3:25: 'memoryThrottlingFactor' must be greater than 0 and "
                          "less than or equal to 1.0, found 1.5"));
  EXPECT_THAT(read("memoryThrottlingFactor: 0\n").errors, ElementsAre(HasSubstr("greater than 0")));
  EXPECT_THAT(read("memoryThrottlingFactor: \"0.5\"\n").errors,
              ElementsAre(HasSubstr("must be a number")));
  EXPECT_THAT(read("memoryThrottlingFactor: much\n").errors,
              ElementsAre(HasSubstr("must be a number")));
  EXPECT_THAT(read("memoryReservationPolicy: Hard\n").errors,
              ElementsAre(HasSubstr("must be None or TieredReservation")));
  EXPECT_THAT(read("featureGates: [MemoryQoS]\n").errors, ElementsAre(HasSubstr("must be a map")));
  EXPECT_THAT(read("featureGates:\n  MemoryQoS: on\n").errors,
              ElementsAre(HasSubstr("must be true or false")));
  EXPECT_THAT(read("kubeReserved:\n  memory: -1Gi\n").errors,
              ElementsAre(HasSubstr("cannot be negative")));
}

TEST(MemoryQosConfig, PolicyIsIgnoredBeforeItsVersion) {
  const Outcome outcome = read("memoryReservationPolicy: TieredReservation\n", std::nullopt, 35);
  EXPECT_THAT(outcome.errors, IsEmpty());
  EXPECT_THAT(outcome.warnings, ElementsAre(HasSubstr("kubelets before 1.36 do not have it")));
}

TEST(KubeletVersion, ItsMinorCounts) {
  EXPECT_EQ(parse_kubelet_minor("1.36"), 36);
  EXPECT_EQ(parse_kubelet_minor("v1.22.3"), 22);
  EXPECT_EQ(parse_kubelet_minor("1.37.0-rc.1"), 37);
  EXPECT_EQ(parse_kubelet_minor("1.30+k3s1"), 30);
  for (const char* text : {"", "1", "1.", "2.36", "1.x", "1.36x", "36", "1.99999999999999999999"}) {
    EXPECT_EQ(parse_kubelet_minor(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace forestall::intake
