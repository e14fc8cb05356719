// SPDX-License-Identifier: Apache-2.0
// The two examples of the Kubernetes documentation (reserve-compute-resources,
// node-pressure-eviction), the arithmetic at its limits, and every pitfall with the settings that
// avoid it.
#include "policy/plan.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace forestall::policy::plan_test {
namespace {

Quantity quantity(std::string_view text) {
  return *parse_quantity(text);
}

PlannedThreshold hard(Signal signal, Limit limit) {
  Threshold threshold;
  threshold.signal = signal;
  threshold.limit = limit;
  return {threshold, true};
}

PlannedThreshold soft(Signal signal, Limit limit) {
  PlannedThreshold planned = hard(signal, limit);
  planned.threshold.grace = std::chrono::minutes(1);
  planned.from_hard = false;
  return planned;
}

Limit amount(std::string_view text) {
  return {quantity(text), std::nullopt};
}

// 32Gi, 16 CPUs, 100Gi, as in the documentation; it has no errors.
PlanInput docs_example() {
  PlanInput input;
  input.capacity.cpu = quantity("16");
  input.capacity.memory = quantity("32Gi");
  input.capacity.ephemeral_storage = quantity("100Gi");
  input.kube_reserved = {quantity("1"), quantity("2Gi"), quantity("1Gi"), std::nullopt};
  input.system_reserved = {quantity("500m"), quantity("1Gi"), quantity("1Gi"), std::nullopt};
  input.thresholds = {hard(Signal::memory_available, amount("500Mi")),
                      hard(Signal::nodefs_available, Limit::share(0.1F)),
                      hard(Signal::nodefs_inodes_free, Limit::share(0.05F)),
                      hard(Signal::imagefs_available, Limit::share(0.15F)),
                      hard(Signal::imagefs_inodes_free, Limit::share(0.05F)),
                      hard(Signal::pid_available, Limit::share(0.1F))};
  input.hard_given = true;
  return input;
}

const ResourcePlan& resource(const Plan& plan, std::string_view name) {
  return *std::find_if(plan.resources.begin(), plan.resources.end(),
                       [&](const ResourcePlan& each) { return each.name == name; });
}

// Topics of warnings and errors.
std::vector<std::string> complaints(const PlanInput& input) {
  std::vector<std::string> topics;
  for (const Advice& each : plan(input).advice) {
    if (each.severity != Severity::note) topics.push_back(each.topic);
  }
  return topics;
}

std::vector<std::string> notes(const PlanInput& input) {
  std::vector<std::string> topics;
  for (const Advice& each : plan(input).advice) {
    if (each.severity == Severity::note) topics.push_back(each.topic);
  }
  return topics;
}

using Topics = std::vector<std::string>;

TEST(Plan, DocsExampleOfAllocatable) {
  const Plan result = plan(docs_example());
  EXPECT_EQ(rounded(resource(result, "memory").allocatable), "28.5Gi");
  EXPECT_EQ(resource(result, "memory").allocatable.text(), "29196Mi");
  EXPECT_EQ(resource(result, "cpu").allocatable.text(), "14500m");
  EXPECT_EQ(rounded(resource(result, "ephemeral-storage").allocatable), "88Gi");
  // To the byte as in kubelet: a 32-bit 10% of 100Gi is 160 bytes more than a tenth.
  EXPECT_EQ(resource(result, "ephemeral-storage").allocatable.value(), (88LL << 30) - 160);
  EXPECT_EQ(resource(result, "memory").pods_limit->text(), "29Gi");
  EXPECT_EQ(rounded(*result.pods_evicted_above), "28.5Gi");
  EXPECT_EQ(result.node_evicts_above->text(), "32268Mi");
  EXPECT_EQ(complaints(docs_example()), Topics());
}

// Threshold and reservation, the first as in Kubernetes' documentation.
TEST(Plan, ThresholdAndReservationOfAnIntent) {
  const auto of = [](std::string_view capacity, const Portion& reserve, const Portion& evict_at) {
    const Quantity all = quantity(capacity);
    const Quantity kept{all.nanos - evict_at.of(all).nanos, QuantityFormat::binary_si};
    return written(memory_threshold(all, evict_at)) + " " +
           written(memory_reservation(all, reserve, kept));
  };
  const Portion tenth{std::nullopt, quantity("10")}, late{std::nullopt, quantity("95")};
  EXPECT_EQ(of("10Gi", tenth, late), "500Mi 1.5Gi");
  EXPECT_EQ(of("32Gi", tenth, late), "1600Mi 4.8Gi");
  EXPECT_EQ(of("1Gi", tenth, late), "50Mi 160Mi");
  EXPECT_EQ(of("64Gi", {quantity("2Gi"), std::nullopt}, {quantity("63Gi"), std::nullopt}),
            "1000Mi 3Gi");
  EXPECT_EQ(of("16301Mi", tenth, late), "800Mi 2.4Gi");
  EXPECT_EQ(of("3Mi", tenth, {quantity("2Mi"), std::nullopt}), "1Mi 10Mi");
}

TEST(Plan, PodsThatAreNotEnforcedHaveTheWholeNode) {
  PlanInput input = docs_example();
  input.pods_enforced = false;
  const Plan result = plan(input);
  EXPECT_EQ(resource(result, "memory").pods_limit->text(), "32Gi");
  EXPECT_EQ(resource(result, "memory").allocatable.text(), "29196Mi");
  EXPECT_FALSE(result.pods_evicted_above);
  EXPECT_EQ(notes(input).front(), "pods-not-enforced");
}

TEST(Plan, HugePagesAndPods) {
  PlanInput input = docs_example();
  input.capacity.huge_pages = quantity("4Gi");
  input.capacity.pods = quantity("110");
  const Plan result = plan(input);
  EXPECT_EQ(resource(result, "memory").allocatable.text(), "25100Mi");
  EXPECT_EQ(resource(result, "pods").allocatable.text(), "110");
  EXPECT_FALSE(resource(result, "pods").pods_limit);
}

// Only evictionHard is subtracted, not a soft threshold with a grace period of 0.
TEST(Plan, HardByGraceIsNotSubtracted) {
  PlanInput input = docs_example();
  input.thresholds.front().from_hard = false;
  EXPECT_EQ(resource(plan(input), "memory").allocatable.text(), "29Gi");
}

TEST(Plan, MoreReservedThanThereIs) {
  PlanInput input = docs_example();
  input.system_reserved.memory = quantity("30Gi");
  const Plan result = plan(input);
  ASSERT_EQ(result.advice.front().severity, Severity::error);
  EXPECT_EQ(result.advice.front().topic, "reservation-exceeds-capacity");
  EXPECT_EQ(resource(result, "memory").allocatable.text(), "0");
  EXPECT_EQ(resource(result, "memory").pods_limit->text(), "0");
  // All of it to the last byte is allowed.
  input.system_reserved.memory = quantity("30220Mi");
  EXPECT_EQ(resource(plan(input), "memory").allocatable.text(), "0");
  EXPECT_NE(plan(input).advice.front().severity, Severity::error);
}

// --- pitfalls -----------------------------------------------------------------------------------

TEST(Pitfall, SoftBelowHard) {
  PlanInput input = docs_example();
  input.max_pod_grace_seconds = 30;
  input.thresholds.push_back(soft(Signal::memory_available, amount("400Mi")));
  EXPECT_EQ(complaints(input), Topics{"soft-below-hard"});
  input.thresholds.back() = soft(Signal::memory_available, amount("500Mi"));
  EXPECT_EQ(complaints(input), Topics{"soft-below-hard"});
  input.thresholds.back() = soft(Signal::memory_available, amount("501Mi"));
  EXPECT_EQ(complaints(input), Topics());
  // Equal units need no capacity.
  input.thresholds.back() = soft(Signal::imagefs_available, Limit::share(0.1F));
  EXPECT_EQ(complaints(input), Topics{"soft-below-hard"});
}

TEST(Pitfall, PercentAgainstBytes) {
  PlanInput input = docs_example();
  input.max_pod_grace_seconds = 30;
  input.thresholds.front() = hard(Signal::memory_available, Limit::share(0.05F));  // 1.6Gi
  input.thresholds.push_back(soft(Signal::memory_available, amount("1Gi")));
  EXPECT_EQ(complaints(input), Topics{"percent-against-bytes"});
  input.thresholds.back() = soft(Signal::memory_available, amount("2Gi"));
  EXPECT_EQ(complaints(input), Topics());
  EXPECT_EQ(notes(input).front(), "percent-against-bytes");
  // The size of the imagefs is unknown.
  input.thresholds.back() = soft(Signal::imagefs_available, amount("2Gi"));
  EXPECT_EQ(complaints(input), Topics());
  EXPECT_EQ(notes(input).front(), "percent-against-bytes");
}

TEST(Pitfall, SoftWithoutGraceOrHard) {
  PlanInput input = docs_example();
  input.thresholds.push_back(soft(Signal::allocatable_memory_available, amount("1Gi")));
  EXPECT_EQ(complaints(input), Topics{"soft-kills-at-once"});
  EXPECT_EQ(notes(input).front(), "soft-without-hard");
}

TEST(Pitfall, ThresholdOutsideTheReservation) {
  PlanInput input = docs_example();
  EXPECT_EQ(notes(input), Topics{"threshold-inside-reservation"});
  input.kube_reserved.memory = std::nullopt;
  input.system_reserved.memory = quantity("400Mi");
  EXPECT_EQ(complaints(input), Topics{"threshold-outside-reservation"});
  input.system_reserved.memory = std::nullopt;
  EXPECT_EQ(complaints(input), (Topics{"nothing-reserved", "allocatable-never-first"}));
}

TEST(Pitfall, MissingThresholds) {
  PlanInput input = docs_example();
  input.thresholds = {hard(Signal::memory_available, amount("500Mi"))};
  EXPECT_EQ(complaints(input), (Topics{"defaults-dropped", "no-pid-threshold"}));
  input.hard_given = false;
  EXPECT_EQ(complaints(input), Topics{"no-pid-threshold"});
  input.thresholds.clear();
  EXPECT_EQ(complaints(input), (Topics{"no-memory-threshold", "no-pid-threshold"}));
}

TEST(Pitfall, MinimumReclaimBeyondReason) {
  PlanInput input = docs_example();
  Threshold& memory = input.thresholds.front().threshold;
  memory.min_reclaim = amount("28Gi");
  EXPECT_EQ(complaints(input), Topics());
  memory.min_reclaim = amount("29Gi");
  EXPECT_EQ(complaints(input), Topics{"minimum-reclaim-too-large"});
  memory.min_reclaim = std::nullopt;
  input.thresholds[2].threshold.min_reclaim = Limit::share(0.95F);
  EXPECT_EQ(complaints(input), Topics{"minimum-reclaim-too-large"});
}

TEST(Pitfall, AlwaysMet) {
  PlanInput input = docs_example();
  input.thresholds.push_back(soft(Signal::memory_available, amount("32Gi")));
  input.max_pod_grace_seconds = 1;
  EXPECT_EQ(complaints(input), Topics{"always-met"});
}

TEST(Written, AsPeopleWriteIt) {
  EXPECT_EQ(written(quantity("1536Mi")), "1.5Gi");
  EXPECT_EQ(written(quantity("2Gi")), "2Gi");
  EXPECT_EQ(written(quantity("500Mi")), "500Mi");
  EXPECT_EQ(written(quantity("29196Mi")), "29196Mi");
  EXPECT_EQ(written(quantity("2G")), "2G");
  EXPECT_EQ(rounded(quantity("29196Mi")), "28.5Gi");
  EXPECT_EQ(rounded(quantity("1023Ki")), "1023Ki");
  EXPECT_EQ(rounded(quantity("14.5")), "14.5");
  EXPECT_EQ(rounded(quantity("14.25")), "14250m");
  EXPECT_EQ(rounded(quantity("16")), "16");
}

}  // namespace
}  // namespace forestall::policy::plan_test
