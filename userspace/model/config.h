// SPDX-License-Identifier: Apache-2.0
// The validated configuration in force: what is watched, what may be killed, how.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/shared_value.h"
#include "model/allocatable.h"
#include "model/container_pressure.h"
#include "model/feature.h"
#include "model/filesystem.h"
#include "model/memory_qos.h"
#include "model/pod.h"
#include "model/pod_annotations.h"
#include "model/ruleset.h"
#include "model/threshold.h"

namespace forestall {

// The longest Config::guard_expiry.
inline constexpr Duration kGuardExpiryMax = std::chrono::minutes(10);

// Declarations about the cgroups that match a glob; makes each of them a workload.
struct WorkloadRule {
  std::string cgroup;  // glob over paths of the memory hierarchy; `*` and `?` stop at '/'
  std::optional<std::string> name;
  std::optional<std::int32_t> priority;
  std::optional<Bytes> memory_request;
  bool is_protected = false;

  friend bool operator==(const WorkloadRule&, const WorkloadRule&) = default;
};

// Declarations about one pod, by its UID (from the manifest).
struct PodRule {
  std::string uid;
  std::optional<std::string> name;
  std::optional<std::int32_t> priority;
  std::optional<Bytes> memory_request;
  bool is_protected = false;

  friend bool operator==(const PodRule&, const PodRule&) = default;
};

// Behaviour that differs between kubelet versions, or between kubelet and its documentation. The
// defaults are those of current kubelets.
struct Compat {
  // Grace of a hard eviction: 1 s; 0 s in kubelets before about 1.27.
  Duration hard_grace = std::chrono::seconds(1);
  // Grace of a soft eviction: the smaller of evictionMaxPodGracePeriod and the pod's own. Kubelets
  // before about 1.27 always used the maximum.
  bool soft_grace_is_lesser = true;
  // A negative evictionMaxPodGracePeriod is passed on unchanged (kills at once); false: the pod's
  // own grace period is used, as documented.
  bool negative_grace_as_given = true;
  // SIGKILL without grace for hard memory and PID thresholds, because 1 s is too long there.
  bool hard_at_once = true;
  // Inode ranking subtracts the ephemeral-storage request in bytes from a number of inodes.
  bool inode_rank_subtracts_bytes = true;
  // Thresholds on containerfs do not count in the first pass.
  bool containerfs_from_second_pass = true;
  // Whether every resource, memory included, waits until the last victim is gone (at most 30 s). By
  // default memory counts what is being released.
  bool one_kill_until_cleanup = false;
  // Node-level reclaim sufficed only if no threshold of any signal is met afterwards, including
  // unrelated ones; false: only the threshold that started it counts.
  bool reclaim_must_clear_all = true;

  friend bool operator==(const Compat&, const Compat&) = default;
};

// What the agent does if a container's oom_score_adj differs from that of its QoS class.
enum class OomScoreAdj : std::uint8_t { observe, enforce };

// The order of eviction when memory is short.
enum class Ranking : std::uint8_t {
  kubelet,         // request, priority, usage over request
  kernel,          // the workload of the process that the kernel's OOM killer would select
  kubelet_growth,  // request, priority, growth since the warning, usage over request
};

// Where the node's filesystems are. Empty: not configured.
struct FilesystemPlaces {
  std::string nodefs = "/var/lib/kubelet";  // kubelet's root directory
  std::string pod_logs = "/var/log/pods";
  std::string imagefs;      // a directory on it; empty: queried from the runtime, otherwise none
  std::string containerfs;  // the same for writable layers
  std::string runtime;      // CRI endpoint, "unix:///run/containerd/containerd.sock"; empty: none

  friend bool operator==(const FilesystemPlaces&, const FilesystemPlaces&) = default;
};

// A ring of recordings on disk.
struct RecordingPlace {
  std::string directory;     // absolute
  Bytes max_size = mib(64);  // of all files in it together

  friend bool operator==(const RecordingPlace&, const RecordingPlace&) = default;
};

// The most kills for thresholds in a period: the last limit on damage, whatever was decided.
struct KillLimit {
  Duration window = std::chrono::seconds(10);
  std::uint32_t node = 8;
  // Per class, in the order of kWorkloadClasses.
  std::array<std::uint32_t, kWorkloadClasses.size()> classes{8, 8, 8, 8};

  friend bool operator==(const KillLimit&, const KillLimit&) = default;
};

// The BPF programs have 512 slots, of which the node and the pods cgroup use two.
inline constexpr std::uint32_t kWatchedCgroupsMax = 510;

struct Config {
  bool dry_run = false;  // decide and log, never signal
  std::vector<Threshold> thresholds;
  // Pods: every pod cgroup below <cgroup_root>/kubepods (or kubepods.slice) is a workload.
  bool pods = true;
  std::string cgroup_root = "/";
  std::vector<WorkloadRule> workloads;  // first match wins
  std::vector<PodRule> pod_rules;
  // Known Kubernetes facts about the pods of this node; found by UID.
  std::vector<std::shared_ptr<const Pod>> known_pods;
  // Seconds; see Compat for a negative value.
  std::int64_t max_pod_grace_seconds = 0;
  // How long a condition is still reported after its last threshold was met.
  Duration pressure_transition = std::chrono::minutes(5);
  bool local_storage_isolation = true;
  // Kubelet's setting; ignored, because Forestall always uses kernel events.
  bool kernel_memcg_notification = false;
  // Kubelet's reservations, and which of them are enforced.
  Reserved kube_reserved;
  Reserved system_reserved;
  std::vector<Enforcement> enforced{Enforcement::pods};
  // Nullopt: unknown; pods are then searched in the cgroups of both drivers.
  std::optional<CgroupDriver> cgroup_driver;
  OomScoreAdj oom_score_adj = OomScoreAdj::observe;
  FilesystemPlaces filesystems;
  Compat compat;
  Ranking ranking = Ranking::kubelet;
  // Whether BPF programs may kill workloads of a list kept by the policy if memory is nearly
  // exhausted and the agent has not acted (policy/guard_list.h).
  bool guard = false;
  // How long the guard's standing list stays in force without an agent that runs.
  Duration guard_expiry = std::chrono::minutes(2);
  // Where the agent records observations and decisions; nullopt: no recording.
  std::optional<RecordingPlace> recording = std::nullopt;
  // Address of /metrics, "127.0.0.1:9464"; empty: not served.
  std::string metrics_address;
  // The agent's gRPC socket, an absolute path; empty: not served; nullopt: in its run directory.
  std::optional<std::string> api_socket = std::nullopt;
  // Users and groups that may use the socket besides root and the agent's user.
  std::vector<std::uint32_t> api_uids = {};
  std::vector<std::uint32_t> api_gids = {};
  // Users that may use the socket and set the facts of pods.
  std::vector<std::uint32_t> api_pod_writers = {};
  FeatureSet disabled;
  // How long the memory of a signalled victim may stay unchanged before the victim counts as stuck
  // and the next candidate is selected.
  Duration release_timeout = std::chrono::milliseconds(500);
  // Longest time between two evaluations without events; lines are re-armed then.
  Duration recheck_interval = std::chrono::seconds(10);
  KillLimit kill_limit;
  // The most watched cgroups; nullopt: as many as the limit of open files permits.
  std::optional<std::uint32_t> watched_cgroups_max;
  // Age of the podList at which pods started since may be missing on it.
  Duration pod_list_max_age = std::chrono::minutes(10);
  // In the order of evaluation; none: no readings are taken for them.
  SharedValue<std::vector<rulesets::Ruleset>> rules;
  // Prekill hooks of the rulesets; the first that matches a victim runs. Null: none.
  SharedValue<std::vector<rulesets::PrekillHook>> hooks = {};
  MemoryQosConfig memory_qos = {};
  PodAnnotationPolicy pod_annotations = {};
  ContainerPressureConfig container_pressure = {};

  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace forestall
