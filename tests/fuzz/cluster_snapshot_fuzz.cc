// SPDX-License-Identifier: Apache-2.0
// Any text as the state of a cluster: an error with a message, or plans, as upstream and with all
// corrections, that evict no pod twice and none that the filter refuses, and move none to its own
// node.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "descheduler/cluster_snapshot.h"
#include "descheduler/descheduler_policy.h"
#include "rebalance/default_evictor.h"
#include "rebalance/rebalance.h"
#include "require.h"

namespace forestall {
namespace {

using test::require;

constexpr const char* kPolicy = R"(profiles:
- name: p
  pluginConfig:
  - {name: LowNodeUtilization, args: {thresholds: {cpu: 40}, targetThresholds: {cpu: 60}}}
  - {name: HighNodeUtilization, args: {thresholds: {cpu: 20}}}
  - {name: RemoveDuplicates}
  - {name: RemovePodsViolatingTopologySpreadConstraint}
  - {name: RemovePodsViolatingInterPodAntiAffinity}
  - {name: RemovePodsViolatingNodeTaints}
  - {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 60}}
  - {name: NodePressure, args: {consecutiveReports: 1, maxReportAgeSeconds: 86400}}
  plugins:
    balance: {enabled: [NodePressure, LowNodeUtilization, HighNodeUtilization, RemoveDuplicates,
                        RemovePodsViolatingTopologySpreadConstraint]}
    deschedule: {enabled: [RemovePodsViolatingInterPodAntiAffinity, RemovePodsViolatingNodeTaints,
                           PodLifeTime]}
)";

void check_plan(rebalance::Policy policy, bool fixed, const rebalance::Snapshot& snapshot) {
  policy.corrections = fixed ? rebalance::Corrections::all() : rebalance::Corrections::none();
  rebalance::CycleOptions options;
  options.explain = true;
  const rebalance::RebalancePlan plan = rebalance::rebalance(policy, snapshot, options);
  const rebalance::ClusterView view(snapshot, policy.corrections);
  const rebalance::DefaultEvictor evictor(view, policy.profiles[0].evictor);
  std::set<std::size_t> evicted;
  for (const rebalance::PodEviction& each : plan.evictions) {
    require(evictor.filter(each.pod));
    require(!each.refused.empty() || evicted.insert(each.pod).second);
    if (!each.destination) continue;
    require(each.refused.empty());
    require(snapshot.nodes[*each.destination].name != snapshot.pods[each.pod].node);
  }
}

void run(std::string_view input) {
  descheduler::ClusterSnapshotReader reader;
  const auto added = reader.add(std::string(input));
  if (!added) return require(!added.error().text().empty());
  const rebalance::Snapshot snapshot = reader.take(1'767'268'800'000'000'000);
  text::Findings findings;
  const auto policy = descheduler::parse_descheduler_policy("p", kPolicy, nullptr, findings);
  require(policy.has_value());
  check_plan(policy->policy, false, snapshot);
  check_plan(policy->policy, true, snapshot);
}

}  // namespace
}  // namespace forestall

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  forestall::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
