// SPDX-License-Identifier: Apache-2.0
// What others printed, given to a subcommand as files: pods, and the statistics that belong to
// them. How the two make workloads is decided here, because it takes the API's form of both and
// the policy's names of cgroups.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/pod_list.h"
#include "api/stats_summary.h"
#include "base/result.h"
#include "forestall/v1/report.pb.h"
#include "model/pod.h"
#include "model/workload.h"

namespace forestall::cli {

// Whole text of a file; "-" is standard input. An error beyond 1 GiB.
[[nodiscard]] Result<std::string> read_input(const std::string& path);

// Errors name the file: "pods.json:3:7: …", "pods.json: items[3] (default/web-0): …".
[[nodiscard]] Result<std::vector<api::ListedPod>> load_pods(const std::string& path);
[[nodiscard]] Result<api::StatsSummary> load_stats(const std::string& path);

// Why a listed pod is nobody that kubelet would evict.
enum class LeftOut : std::uint8_t {
  finished,    // its containers have ended, and it is not being taken down
  other_node,  // it is bound to another node than the statistics are of
  unbound,     // it is bound to no node, while others are bound to that one
};
[[nodiscard]] std::string_view to_string(LeftOut reason);

struct JoinedPods {
  std::vector<WorkloadSample> workloads;  // in the order of the list
  std::vector<std::pair<std::shared_ptr<const Pod>, LeftOut>> left_out;
  std::vector<api::PodStatsEntry> unmatched;  // statistics of no pod in the list
};

// Kubelet's active pods (policy/pod_facts.h is_active) of the node of `summary`, each with the
// entry of its UID; a mirror pod with that of the static pod it stands for. A pod without an entry
// stays unmeasured; in an entry, memory or processes that are missing are 0, as kubelet counts
// them. Nodes are told apart only if at least one pod is bound to the summary's: else the names are
// of no use. Paths are those of the driver cgroupfs.
[[nodiscard]] JoinedPods join(std::vector<api::ListedPod> listed, const api::StatsSummary& summary);

[[nodiscard]] v1::PodName pod_name(const Pod& pod);
// "default/web-0".
[[nodiscard]] std::string qualified_name(const Pod& pod);

}  // namespace forestall::cli
