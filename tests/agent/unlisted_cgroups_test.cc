// SPDX-License-Identifier: Apache-2.0
#include "agent/unlisted_cgroups.h"

#include <gtest/gtest.h>

#include <vector>

namespace forestall::agent {
namespace {

// A kill of `victim`, which holds 100 MiB of the 150 MiB that are in use.
Decision kill_of(const std::string& victim, WorkloadKind kind = WorkloadKind::cgroup) {
  Decision decision;
  decision.driving = 0;
  Evidence evidence;
  evidence.capacity = mib(200).count;
  evidence.available = mib(50).count;
  decision.evidence = {evidence};
  Candidate candidate;
  candidate.sample.workload.path = victim;
  candidate.sample.workload.kind = kind;
  candidate.sample.usage = mib(100);
  candidate.sample.inactive_file = Bytes{0};
  decision.considered = {candidate};
  decision.evictions = {Eviction{}};
  return decision;
}

Config with_rules(std::vector<WorkloadRule> rules) {
  Config config;
  config.pods = true;
  config.workloads = std::move(rules);
  return config;
}

WorkloadRule protects(const std::string& glob) {
  WorkloadRule rule;
  rule.cgroup = glob;
  rule.is_protected = true;
  return rule;
}

bool allowed_with(const std::vector<std::string>& came, const Config& config = with_rules({}),
                  const std::string& victim = "/t/a") {
  return unlisted_cannot_change(kill_of(victim), {came, "/pods"}, config);
}

bool allowed_without_names(const std::string& victim, const Config& config,
                           WorkloadKind kind = WorkloadKind::cgroup) {
  return unlisted_cannot_change(kill_of(victim, kind), {std::nullopt, "/pods"}, config);
}

TEST(UnlistedCgroups, ANamedOneCountsAtAndAboveTheVictim) {
  EXPECT_TRUE(allowed_with({}));
  EXPECT_TRUE(allowed_with({"/t/b", "/t/ab", "/other"}));
  EXPECT_FALSE(allowed_with({"/t/a"}));
  EXPECT_FALSE(allowed_with({"/t"}));
}

// Regression: a victim that makes cgroups inside of its own made the agent list the whole tree.
TEST(UnlistedCgroups, ANamedOneInsideOfTheVictimCountsIfItOrOneInItCanBeProtected) {
  EXPECT_TRUE(allowed_with({"/t/a/x"}));
  EXPECT_TRUE(allowed_with({"/t/a/x"}, with_rules({protects("/t/*"), protects("/t/a/y")})));
  EXPECT_FALSE(allowed_with({"/t/b", "/t/a/x"}, with_rules({protects("/t/*/x")})));
  EXPECT_FALSE(allowed_with({"/t/a/x"}, with_rules({protects("/t/a/x/y")}))) << "came with it";
  EXPECT_FALSE(allowed_with({"/pods/x/pod1"}, with_rules({}), "/pods/x")) << "a pod";
}

// Regression: a tenant that renamed a cgroup without a pause made the agent list the whole tree
// between a crossing and the kill.
TEST(UnlistedCgroups, WithoutNamesItCountsWhetherAProtectedOneCanBeInside) {
  EXPECT_TRUE(allowed_without_names("/t/a", with_rules({})));
  EXPECT_TRUE(allowed_without_names("/t/a", with_rules({protects("/t/*")}))) << "beside it";
  EXPECT_TRUE(allowed_without_names("/t/a", with_rules({protects("/u/*/x")})));
  EXPECT_TRUE(allowed_without_names("/t/a", with_rules({protects("/t")}))) << "above it";
  EXPECT_FALSE(allowed_without_names("/t/a", with_rules({protects("/t/*/x")})));
  EXPECT_FALSE(allowed_without_names("/t/a", with_rules({protects("/?/a/*/x")})));
  WorkloadRule rule;
  rule.cgroup = "/t/*/x";
  EXPECT_TRUE(allowed_without_names("/t/a", with_rules({rule})));
  rule.priority = 1'999'999'999;
  EXPECT_TRUE(allowed_without_names("/t/a", with_rules({rule})));
  rule.priority = 2'000'000'000;
  EXPECT_FALSE(allowed_without_names("/t/a", with_rules({rule}))) << "critical, so protected";
}

TEST(UnlistedCgroups, WithoutNamesItCountsWhetherPodsCanBeInside) {
  EXPECT_FALSE(allowed_without_names("/pods", with_rules({})));
  EXPECT_FALSE(allowed_without_names("/pods/burstable", with_rules({})));
  EXPECT_TRUE(allowed_without_names("/pods/burstable/pod1", with_rules({}), WorkloadKind::pod));
  Config no_pods = with_rules({});
  no_pods.pods = false;
  EXPECT_TRUE(allowed_without_names("/pods", no_pods));
}

TEST(UnlistedCgroups, NoneIsLargerThanTheVictim) {
  Decision decision = kill_of("/t/a");
  const std::vector<std::string> none;
  const Config config = with_rules({});
  decision.evidence[0].available = 0;  // 100 MiB are outside of the victim, as much as it holds
  EXPECT_TRUE(unlisted_cannot_change(decision, {none, ""}, config));
  decision.evidence[0].capacity += 1;
  EXPECT_FALSE(unlisted_cannot_change(decision, {none, ""}, config));
  EXPECT_FALSE(unlisted_cannot_change(decision, {std::nullopt, ""}, config));
  decision.driving.reset();
  EXPECT_FALSE(unlisted_cannot_change(decision, {none, ""}, config));
}

}  // namespace
}  // namespace forestall::agent
