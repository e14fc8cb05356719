// SPDX-License-Identifier: Apache-2.0
// The part of kubelet's /stats/summary that eviction rules use (stats/v1alpha1,
// staging/src/k8s.io/kubelet/pkg/apis/stats/v1alpha1/types.go): kubelet decides on the same
// figures.
//
// Obtained with `kubectl get --raw /api/v1/nodes/NODE/proxy/stats/summary`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/filesystem.h"
#include "model/observation.h"
#include "model/workload.h"

namespace forestall::intake {

// One entry of pods[].
struct PodStatsEntry {
  // For a static pod: its own UID (the hash of its file), not the UID of its mirror in the API.
  std::string uid;
  std::string name;
  std::string pod_namespace;
  std::optional<Bytes> working_set;        // of the pod's cgroup; nothing: no memory statistics
  std::optional<std::uint64_t> processes;  // nothing: no process statistics
  PodStatistics statistics;

  friend bool operator==(const PodStatsEntry&, const PodStatsEntry&) = default;
};

struct StatsSummary {
  std::string node;  // its name
  // node.memory: capacity is available + working set, usage the working set, inactive_file 0.
  NodeSample memory;
  // node.systemContainers "pods", in the same form with a limit as the capacity.
  std::optional<CgroupSample> pods_cgroup;
  // node.fs, node.runtime.imageFs and containerFs, and their layout; see layout_of().
  FilesystemSamples filesystems;
  TaskSample tasks;  // node.rlimit
  std::string time;  // of node.memory, as printed; empty: unknown
  std::vector<PodStatsEntry> pods;

  friend bool operator==(const StatsSummary&, const StatsSummary&) = default;
};

// The first mistake is the error, with its path ("pods[2].memory.workingSetBytes: expected a whole
// number…"), or LINE:COLUMN if the text is not JSON. An entry without a UID and a duplicate UID are
// mistakes; everything else may be missing. Amounts are unsigned in the JSON and converted to
// signed, as in kubelet: its memory.availableBytes is negative if usage exceeds the capacity.
[[nodiscard]] Result<StatsSummary> parse_stats_summary(std::string_view json);

// The layout of the three filesystems. Kubelet detects it by their devices
// (pkg/kubelet/stats/cri_stats_provider.go ImageFsDevice(), ContainerFsStats()); a summary has only
// their figures, so two filesystems with equal capacity and equal available amounts are taken as
// one. Nothing if imagefs, nodefs or figures are missing.
[[nodiscard]] std::optional<FilesystemLayout> layout_of(const FilesystemSamples& filesystems);

}  // namespace forestall::intake
