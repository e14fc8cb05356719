// SPDX-License-Identifier: Apache-2.0
// What kubelet's /stats/summary says that eviction rules look at (stats/v1alpha1,
// staging/src/k8s.io/kubelet/pkg/apis/stats/v1alpha1/types.go): the figures kubelet itself decides
// on (kubelet.md §2).
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

namespace forestall::api {

// One entry of pods[].
struct PodStatsEntry {
  // Of a static pod: its own UID (the hash of its file), not that of its mirror in the API.
  std::string uid;
  std::string name;
  std::string pod_namespace;
  std::optional<Bytes> working_set;        // of the pod's cgroup; nothing: the entry has no memory
  std::optional<std::uint64_t> processes;  // nothing: the entry has none
  PodStatistics statistics;

  friend bool operator==(const PodStatsEntry&, const PodStatsEntry&) = default;
};

struct StatsSummary {
  std::string node;  // its name
  // node.memory: capacity is available + working set, usage the working set, inactive_file 0.
  NodeSample memory;
  // node.systemContainers "pods", in the same form with a limit for the capacity.
  std::optional<CgroupSample> pods_cgroup;
  // node.fs, node.runtime.imageFs and containerFs, and the layout they show; see layout_of().
  FilesystemSamples filesystems;
  TaskSample tasks;  // node.rlimit
  std::string time;  // of node.memory, as it was printed; empty: not told
  std::vector<PodStatsEntry> pods;

  friend bool operator==(const StatsSummary&, const StatsSummary&) = default;
};

// The first mistake is the error: by its path ("pods[2].memory.workingSetBytes: expected a whole
// number…"), or LINE:COLUMN if the text is no JSON at all. An entry without a UID and a UID that
// comes twice are mistakes; all else may be missing. Amounts are unsigned on the wire and read
// back as signed, as kubelet does: its memory.availableBytes is below zero when more is used than
// there is.
[[nodiscard]] Result<StatsSummary> parse_stats_summary(std::string_view json);

// The layout that three filesystems show, which kubelet tells by their devices
// (pkg/kubelet/stats/cri_stats_provider.go ImageFsDevice, ContainerFsStats) and a summary only by
// their figures: two with the same capacity and the same available amounts are one filesystem.
// Nothing without images' filesystem or nodefs, or without figures to compare.
[[nodiscard]] std::optional<FilesystemLayout> layout_of(const FilesystemSamples& filesystems);

}  // namespace forestall::api
