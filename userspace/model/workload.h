// SPDX-License-Identifier: Apache-2.0
// Workloads: what can be evicted. Who they are and what was declared about them; what they use at
// one instant is a WorkloadSample.
//
// Absent is not zero: an optional without a value means "not declared" or "could not be read", and
// the policy says for each what it makes of that.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "model/filesystem.h"
#include "model/ids.h"
#include "model/pod.h"

namespace forestall {

enum class WorkloadKind : std::uint8_t { pod, cgroup };

// Why a workload is never killed. `none` is the only killable value.
enum class Protection : std::uint8_t {
  none,
  declared,     // the config or the manifest says `protected: true`
  critical,     // priority >= 2000000000 (pkg/apis/scheduling/types.go SystemCriticalPriority)
  static_pod,   // static or mirror pod
  own_cgroup,   // the agent itself lives in it
  init_cgroup,  // pid 1 lives in it
};

[[nodiscard]] std::string_view to_string(WorkloadKind kind);
[[nodiscard]] std::string_view to_string(Protection protection);

struct Workload {
  CgroupId cgroup;
  std::string path;  // in the memory hierarchy, from its root: "/kubepods/burstable/pod…"
  WorkloadKind kind = WorkloadKind::cgroup;
  std::string name;                      // as declared; the path's last part else
  std::optional<std::string> pod_uid;    // only for pods
  std::optional<std::int32_t> priority;  // not declared: ranks as 0, as kubelet does
  std::optional<Bytes> memory_request;   // not declared: ranks as 0, as kubelet does
  Protection protection = Protection::none;
  // All that is known of the pod; what is declared above counts before it. Null: not known.
  std::shared_ptr<const Pod> pod;

  // The pod's facts are compared by value.
  friend bool operator==(const Workload& a, const Workload& b);
};

struct ContainerSample {
  std::string name;
  std::optional<Bytes> working_set;
  std::optional<DiskUsage> rootfs;  // the writable layer
  std::optional<DiskUsage> logs;

  friend bool operator==(const ContainerSample&, const ContainerSample&) = default;
};

struct VolumeSample {
  std::string name;
  DiskUsage usage;

  friend bool operator==(const VolumeSample&, const VolumeSample&) = default;
};

// What a pod's parts use (kubelet's /stats/summary, pkg/kubelet/apis/stats/v1alpha1 PodStats). Not
// read before it is needed: a walk over files takes its time.
struct PodStatistics {
  std::vector<ContainerSample> containers;
  std::vector<VolumeSample> volumes;
  // Ephemeral storage of the whole pod: writable layers, logs, ephemeral volumes, the pod's own
  // logs and its /etc/hosts. Nothing: the sum of the parts stands in for it.
  std::optional<DiskUsage> ephemeral_storage;

  friend bool operator==(const PodStatistics&, const PodStatistics&) = default;
};

// Whom the kernel would choose in a workload, as a global OOM scores it.
struct WorkloadBadness {
  ProcessId process;
  std::int64_t points = 0;  // pages

  friend bool operator==(const WorkloadBadness&, const WorkloadBadness&) = default;
};

struct WorkloadSample {
  Workload workload;
  std::optional<Bytes> usage;          // memory.current / memory.usage_in_bytes
  std::optional<Bytes> inactive_file;  // inactive_file / total_inactive_file of memory.stat
  std::optional<std::uint64_t> processes;
  std::optional<PodStatistics> statistics;  // nothing: not read
  bool scored = false;                      // whether its processes were scored
  std::optional<WorkloadBadness> badness =
      std::nullopt;  // nothing: not scored, or none of them can be chosen
  // By how much its working set grew since the warning (policy/growth_baseline.h); never negative.
  // Nothing: there is no earlier figure to compare with.
  std::optional<Bytes> growth = std::nullopt;

  // usage - inactive_file, floored at 0 (kubelet's working set); nothing if either is unknown.
  [[nodiscard]] std::optional<Bytes> working_set() const;
  friend bool operator==(const WorkloadSample&, const WorkloadSample&) = default;
};

// The shared formula of every working set: usage - inactive_file, floored at 0.
[[nodiscard]] constexpr Bytes working_set(Bytes usage, Bytes inactive_file) {
  return usage < inactive_file ? Bytes{0} : usage - inactive_file;
}

}  // namespace forestall
