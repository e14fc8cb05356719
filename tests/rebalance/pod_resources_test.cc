// SPDX-License-Identifier: Apache-2.0
// Requests and QoS classes of pods, and selectors.
#include "rebalance/pod_resources.h"

#include <gtest/gtest.h>

#include <limits>

#include "rebalance/selector.h"

namespace forestall::rebalance::test {
namespace {

ContainerResources container(std::int64_t request, std::int64_t limit = 0, bool sidecar = false) {
  ContainerResources out;
  out.restartable = sidecar;
  if (request >= 0) out.requests.at(kCpu) = nanos_of(kCpu, request);
  if (limit > 0) out.limits.at(kCpu) = nanos_of(kCpu, limit);
  return out;
}

std::int64_t request_of(const PodResources& pod) {
  return counted(kCpu, pod_request(pod).of(kCpu));
}

// With the 64 bits to which most amounts are shortened, and beyond them.
TEST(Amounts, RoundAwayFromZeroAtEverySize) {
  for (const std::int64_t step : {std::int64_t{1}, kNanosPerMilli, kNanosPerUnit}) {
    for (Nanos size = 1; size < Nanos{1} << 90U; size = size * 7 + 3) {
      for (const Nanos amount : {size, size * step, size * step + 1, size * step - 1}) {
        const Nanos steps = amount / step + (amount % step != 0 ? 1 : 0);
        const std::int64_t expected = steps > std::numeric_limits<std::int64_t>::max()
                                          ? std::numeric_limits<std::int64_t>::max()
                                          : static_cast<std::int64_t>(steps);
        ASSERT_EQ(rounded(amount, step), expected);
        ASSERT_EQ(rounded(-amount, step), -expected);
      }
    }
  }
}

TEST(PodRequest, TakesTheLargerOfStartAndRun) {
  PodResources pod;
  pod.containers = {container(100), container(50)};
  EXPECT_EQ(request_of(pod), 150);
  pod.init_containers = {container(120)};
  EXPECT_EQ(request_of(pod), 150);
  pod.init_containers = {container(200)};
  EXPECT_EQ(request_of(pod), 200);
  // A sidecar runs beside the containers, and beside the init containers after it.
  pod.init_containers = {container(10, 0, true), container(200), container(30, 0, true)};
  EXPECT_EQ(request_of(pod), 210);
  pod.overhead.at(kCpu) = nanos_of(kCpu, 5);
  EXPECT_EQ(request_of(pod), 215);
  pod.pod_requests.emplace().at(kCpu) = nanos_of(kCpu, 80);
  EXPECT_EQ(request_of(pod), 85);
}

TEST(PodRequest, RoundsUp) {
  EXPECT_EQ(counted(kCpu, 1), 1);
  EXPECT_EQ(counted(kMemory, kNanosPerUnit + 1), 2);
  EXPECT_EQ(counted(kMemory, -kNanosPerUnit - 1), -2);
}

TEST(QosClass, CountsPositiveAmountsOnly) {
  PodResources pod;
  pod.containers = {container(0)};
  EXPECT_EQ(qos_class(pod), QosClass::best_effort);
  pod.containers = {container(-1, 100)};
  EXPECT_EQ(qos_class(pod), QosClass::burstable);  // limits give no requests here
  pod.containers = {container(100, 100)};
  EXPECT_EQ(qos_class(pod), QosClass::burstable);
  for (ContainerResources& each : pod.containers) {
    each.requests.at(kMemory) = nanos_of(kMemory, 10);
    each.limits.at(kMemory) = nanos_of(kMemory, 10);
  }
  EXPECT_EQ(qos_class(pod), QosClass::guaranteed);
}

struct SelectorRow {
  const char* text;
  bool matches;
};

TEST(Selector, IsParsedAndMatched) {
  const Labels labels{{"a", "1"}, {"b", ""}, {"n", "5"}};
  const SelectorRow rows[] = {
      {"", true},
      {"a=1", true},
      {"a==1", true},
      {"a = 1", true},
      {"a!=1", false},
      {"c!=1", true},
      {"a", true},
      {"!a", false},
      {"!c", true},
      {"a in (2, 1)", true},
      {"a in (2)", false},
      {"a notin (2)", true},
      {"c notin (2)", true},
      {"b=", true},
      {"n>4", true},
      {"n<5", false},
      {"a=1,b,!c", true},
      {"a=1,c", false},
  };
  for (const SelectorRow& row : rows) {
    const auto selector = parse_selector(row.text);
    ASSERT_TRUE(selector) << row.text << ": " << selector.error().message;
    EXPECT_EQ(matches(*selector, labels), row.matches) << row.text;
  }
}

TEST(Selector, RefusesWhatTheApiRefuses) {
  for (const char* const text :
       {"a,", ",a", "=1", "a in", "a in ()x", "a in (1", "n>x", "a b", "!"}) {
    EXPECT_FALSE(parse_selector(text)) << text;
  }
}

}  // namespace
}  // namespace forestall::rebalance::test
