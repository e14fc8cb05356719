// SPDX-License-Identifier: Apache-2.0
// Workloads: what can be evicted. A Workload has identity and declarations; a WorkloadSample has
// usage at one instant.
//
// Absent is not zero: an optional without a value means "not declared" or "could not be read". The
// policy defines the meaning of each.
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
#include "model/preference.h"

namespace forestall {

enum class WorkloadKind : std::uint8_t { pod, cgroup };

// Why a workload is never killed; only `none` may be killed.
enum class Protection : std::uint8_t {
  none,
  declared,         // the config or the manifest has it `protected: true`
  critical,         // priority >= 2000000000 (pkg/apis/scheduling/types.go SystemCriticalPriority)
  static_pod,       // static or mirror pod
  own_cgroup,       // contains the agent
  init_cgroup,      // contains pid 1
  may_be_critical,  // pod of unknown priority that the node shows as possibly critical
  annotated,        // the pod's annotation has it, and Config::pod_annotations permits that
};

[[nodiscard]] std::string_view to_string(WorkloadKind kind);
[[nodiscard]] std::string_view to_string(Protection protection);

// What the node itself shows of a pod whose facts are not known from Kubernetes: the group of its
// cgroup, and the oom_score_adj that kubelet gave its processes (pkg/kubelet/qos/policy.go).
struct InferredFacts {
  QosClass qos = QosClass::guaranteed;
  // The lowest of its containers; the sandbox has the runtime's own value. Nullopt: no container
  // has a value that kubelet writes.
  std::optional<std::int32_t> oom_score_adj;
  // The most that its containers can have requested; nullopt: unknown.
  std::optional<Bytes> memory_request;

  friend bool operator==(const InferredFacts&, const InferredFacts&) = default;
};

struct Workload {
  CgroupId cgroup;
  std::string path;  // in the memory hierarchy, from its root: "/kubepods/burstable/pod…"
  WorkloadKind kind = WorkloadKind::cgroup;
  std::string name;                      // as declared, otherwise the path's last part
  std::optional<std::string> pod_uid;    // only for pods
  std::optional<std::int32_t> priority;  // undeclared: ranks as 0, as in kubelet
  std::optional<Bytes> memory_request;   // undeclared: ranks as 0, as in kubelet
  Protection protection = Protection::none;
  // All known facts of the pod; the declarations above take precedence. Null: unknown.
  std::shared_ptr<const Pod> pod;
  // Set for pods without `pod`. Used only for what is not declared above.
  std::optional<InferredFacts> inferred = std::nullopt;
  // By the pod's annotations, as Config::pod_annotations permits.
  Preference preference = Preference::normal;

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

// Usage of a pod's parts (kubelet's /stats/summary, pkg/kubelet/apis/stats/v1alpha1 PodStats). Read
// only on demand, because a walk over files is slow.
struct PodStatistics {
  std::vector<ContainerSample> containers;
  std::vector<VolumeSample> volumes;
  // Ephemeral storage of the whole pod: writable layers, logs, ephemeral volumes, the pod's own
  // logs and its /etc/hosts. Nullopt: the sum of the parts is used.
  std::optional<DiskUsage> ephemeral_storage;

  friend bool operator==(const PodStatistics&, const PodStatistics&) = default;
};

// The process that the kernel would select in a workload, scored as in a global OOM.
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
  std::optional<PodStatistics> statistics;  // nullopt: not read
  bool scored = false;                      // whether its processes were scored
  std::optional<WorkloadBadness> badness =
      std::nullopt;  // nullopt: not scored, or none can be selected
  // Growth of its working set since the warning (policy/growth_baseline.h); never negative.
  // Nullopt: no earlier value.
  std::optional<Bytes> growth = std::nullopt;

  // usage - inactive_file, floored at 0 (kubelet's working set); nullopt if either is unknown.
  [[nodiscard]] std::optional<Bytes> working_set() const;
  friend bool operator==(const WorkloadSample&, const WorkloadSample&) = default;
};

// The formula of every working set: usage - inactive_file, floored at 0.
[[nodiscard]] constexpr Bytes working_set(Bytes usage, Bytes inactive_file) {
  return usage < inactive_file ? Bytes{0} : usage - inactive_file;
}

}  // namespace forestall
