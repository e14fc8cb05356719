// SPDX-License-Identifier: Apache-2.0
#include "agent/oom_score_adj_reconciler.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy/oom_score_adj.h"
#include "sources/container_reader.h"

namespace forestall::agent {
namespace {

constexpr std::size_t kPodsPerEvaluation = 8;
constexpr std::size_t kLoggedMax = 4096;

// The container with this id, among regular ones and init containers.
const PodContainer* container_with(const Pod& pod, std::string_view id) {
  for (const auto* list : {&pod.containers, &pod.init_containers}) {
    const auto found = std::ranges::find(*list, id, &PodContainer::id);
    if (found != list->end()) return &*found;
  }
  return nullptr;
}

}  // namespace

void OomScoreAdjReconciler::reconcile(std::span<const Workload* const> workloads, Bytes capacity,
                                      OomScoreAdj mode) {
  if (workloads.empty()) return;
  std::vector<actuators::ExpectedOomScoreAdj> expected;
  for (std::size_t i = 0; i < std::min(kPodsPerEvaluation, workloads.size()); ++i) {
    const Workload& workload = *workloads[next_++ % workloads.size()];
    for (auto& each : expected_of(workload, capacity)) expected.push_back(std::move(each));
  }
  next_ %= workloads.size();
  const auto findings =
      actuators::check_oom_score_adj(tree_, expected, mode == OomScoreAdj::enforce);
  for (const actuators::OomScoreAdjFinding& finding : findings) report(finding);
}

// The sandbox's own container is not one of the pod's: the runtime sets its value.
std::vector<actuators::ExpectedOomScoreAdj> OomScoreAdjReconciler::expected_of(
    const Workload& workload, Bytes capacity) const {
  std::vector<actuators::ExpectedOomScoreAdj> expected;
  // The agent sets its own value.
  if (!workload.pod || workload.protection == Protection::own_cgroup) return expected;
  const auto cgroup = tree_.open(workload.path);
  if (!cgroup.ok()) return expected;
  const auto children = cgroup->children();
  if (!children.ok()) return expected;
  for (const std::string& child : *children) {
    const PodContainer* container = container_with(*workload.pod, sources::container_id(child));
    if (container == nullptr || container->id.empty()) continue;
    expected.push_back({workload.name + ": " + container->name, workload.path + "/" + child,
                        policy::oom_score_adj(*workload.pod, *container, capacity)});
  }
  return expected;
}

void OomScoreAdjReconciler::report(const actuators::OomScoreAdjFinding& finding) {
  if (reported_.size() >= kLoggedMax) reported_.clear();
  const bool fresh =
      reported_.insert(fmt::format("{} {} {}", finding.container, finding.pid, finding.found))
          .second;
  if (!fresh) return;
  exports::LogLine line("oom-score-adj");
  line.field("container", finding.container)
      .field("pid", finding.pid)
      .field("found", finding.found)
      .field("expected", finding.expected)
      .field("corrected", finding.corrected);
  if (finding.failure) line.field("failure", finding.failure->text());
  log_.write(exports::LogLevel::warning, line);
}

}  // namespace forestall::agent
