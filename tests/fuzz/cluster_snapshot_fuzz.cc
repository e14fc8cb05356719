// SPDX-License-Identifier: Apache-2.0
// Any text as the state of a cluster: an error with a message, or a plan that evicts no pod twice
// and none that the filter refuses.
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
  plugins:
    balance: {enabled: [LowNodeUtilization, HighNodeUtilization, RemoveDuplicates,
                        RemovePodsViolatingTopologySpreadConstraint]}
    deschedule: {enabled: [RemovePodsViolatingInterPodAntiAffinity, RemovePodsViolatingNodeTaints,
                           PodLifeTime]}
)";

void run(std::string_view input) {
  descheduler::ClusterSnapshotReader reader;
  const auto added = reader.add(std::string(input));
  if (!added) return require(!added.error().text().empty());
  const rebalance::Snapshot snapshot = reader.take(1'767'268'800'000'000'000);
  text::Findings findings;
  const auto policy = descheduler::parse_descheduler_policy("p", kPolicy, nullptr, findings);
  require(policy.has_value());
  rebalance::CycleOptions options;
  options.explain = true;
  const rebalance::RebalancePlan plan = rebalance::rebalance(policy->policy, snapshot, options);
  const rebalance::ClusterView view(snapshot);
  const rebalance::DefaultEvictor evictor(view, policy->policy.profiles[0].evictor);
  std::set<std::size_t> evicted;
  for (const rebalance::PodEviction& each : plan.evictions) {
    require(evictor.filter(each.pod));
    require(!each.refused.empty() || evicted.insert(each.pod).second);
  }
}

}  // namespace
}  // namespace forestall

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  forestall::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
