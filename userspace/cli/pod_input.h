// SPDX-License-Identifier: Apache-2.0
// Pods and their statistics from files: output of kubectl and of the kubelet. The join of the two
// is here, because it needs the API's form of both and the policy's cgroup names.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "forestall/v1/report.pb.h"
#include "intake/pod_list.h"
#include "intake/stats_summary.h"
#include "model/pod.h"
#include "model/workload.h"

namespace forestall::cli {

// The whole file; "-" is standard input. Errors: larger than 1 GiB, or not readable.
[[nodiscard]] Result<std::string> read_input(const std::string& path);

// Errors name the file: "pods.json:3:7: …", "pods.json: items[3] (default/web-0): …".
[[nodiscard]] Result<std::vector<intake::ListedPod>> load_pods(const std::string& path);
[[nodiscard]] Result<intake::StatsSummary> load_stats(const std::string& path);

// Why kubelet would not rank a listed pod.
enum class LeftOut : std::uint8_t {
  finished,    // its containers have ended, and it is not being deleted
  other_node,  // bound to another node than that of the statistics
  unbound,     // bound to no node, while others are bound to that node
};
[[nodiscard]] std::string_view to_string(LeftOut reason);

struct JoinedPods {
  std::vector<WorkloadSample> workloads;  // in list order
  std::vector<std::pair<std::shared_ptr<const Pod>, LeftOut>> left_out;
  std::vector<intake::PodStatsEntry> unmatched;  // statistics without a listed pod
};

// Joins kubelet's active pods (policy/pod_facts.h is_active) of the node of `summary` with their
// statistics by UID. A mirror pod uses the entry of its static pod. A pod without an entry stays
// unmeasured. Missing memory or process counts are 0, as in kubelet.
// Pods are filtered by node only if at least one pod is bound to the summary's node. Paths are
// those of the cgroupfs driver.
[[nodiscard]] JoinedPods join(std::vector<intake::ListedPod> listed,
                              const intake::StatsSummary& summary);

[[nodiscard]] v1::PodName pod_name(const Pod& pod);
// "default/web-0".
[[nodiscard]] std::string qualified_name(const Pod& pod);

}  // namespace forestall::cli
