// SPDX-License-Identifier: Apache-2.0
// The configuration in force, already checked: what is watched, what may be killed, how.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/allocatable.h"
#include "model/feature.h"
#include "model/filesystem.h"
#include "model/pod.h"
#include "model/threshold.h"

namespace forestall {

// What is declared about the cgroups that match a glob; makes each of them a workload.
struct WorkloadRule {
  std::string cgroup;  // glob over paths of the memory hierarchy; `*` and `?` stop at '/'
  std::optional<std::string> name;
  std::optional<std::int32_t> priority;
  std::optional<Bytes> memory_request;
  bool is_protected = false;

  friend bool operator==(const WorkloadRule&, const WorkloadRule&) = default;
};

// What is declared about one pod, by its UID (from the manifest).
struct PodRule {
  std::string uid;
  std::optional<std::string> name;
  std::optional<std::int32_t> priority;
  std::optional<Bytes> memory_request;
  bool is_protected = false;

  friend bool operator==(const PodRule&, const PodRule&) = default;
};

// Where kubelets differ from each other, or from what anybody wants (kubelet.md §5.3, §12). The
// defaults are those of current kubelets.
struct Compat {
  // Grace of a hard eviction: 1 s; 0 s in kubelets before about 1.27.
  Duration hard_grace = std::chrono::seconds(1);
  // A soft eviction's grace: the lesser of evictionMaxPodGracePeriod and the pod's own; kubelets
  // before about 1.27 always took the maximum.
  bool soft_grace_is_lesser = true;
  // A negative evictionMaxPodGracePeriod is passed on as it is (kills at once); false: the pod's
  // own grace period counts, as documented.
  bool negative_grace_as_given = true;
  // SIGKILL without grace for hard memory and PID thresholds: 1 s is too long there.
  bool hard_at_once = true;
  // Inode ranking subtracts the ephemeral-storage request in bytes from a number of inodes.
  bool inode_rank_subtracts_bytes = true;
  // Thresholds on containerfs do not count in the very first pass.
  bool containerfs_from_second_pass = true;
  // Whether every resource, memory included, waits until the last victim is gone (at most 30 s).
  // By default memory goes by what is on its way back.
  bool one_kill_until_cleanup = false;
  // Node-level reclaim was enough only if no threshold of any signal is met afterwards, even one
  // that has nothing to do with it; false: the one that asked for it decides.
  bool reclaim_must_clear_all = true;

  friend bool operator==(const Compat&, const Compat&) = default;
};

// What the agent does about the oom_score_adj that a container's QoS class asks for.
enum class OomScoreAdj : std::uint8_t { observe, enforce };

// Whose order of eviction counts when memory is short.
enum class Ranking : std::uint8_t {
  kubelet,         // request, priority, usage over request
  kernel,          // the workload of the process that the kernel's OOM killer would choose
  kubelet_growth,  // request, priority, growth since the warning, usage over request
};

// Where the node's filesystems are. Empty: not configured.
struct FilesystemPlaces {
  std::string nodefs = "/var/lib/kubelet";  // kubelet's root directory
  std::string pod_logs = "/var/log/pods";
  std::string imagefs;      // a directory on it; empty: asked from the runtime, else none
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

struct Config {
  bool dry_run = false;  // decide and log, never signal
  std::vector<Threshold> thresholds;
  // Pods: every pod cgroup below <cgroup_root>/kubepods (or kubepods.slice) is a workload.
  bool pods = true;
  std::string cgroup_root = "/";
  std::vector<WorkloadRule> workloads;  // first match wins
  std::vector<PodRule> pod_rules;
  // What Kubernetes knows about the pods of this node, as far as it was told; found by UID.
  std::vector<std::shared_ptr<const Pod>> known_pods;
  // Seconds; see Compat for a negative one.
  std::int64_t max_pod_grace_seconds = 0;
  // How long a condition is reported after the last threshold behind it was met.
  Duration pressure_transition = std::chrono::minutes(5);
  bool local_storage_isolation = true;
  // As kubelet has it; Forestall is woken by events whatever this says.
  bool kernel_memcg_notification = false;
  // What kubelet keeps from pods, and what of it is enforced.
  Reserved kube_reserved;
  Reserved system_reserved;
  std::vector<Enforcement> enforced{Enforcement::pods};
  // Nothing: not told; pods are then found in the cgroups of either.
  std::optional<CgroupDriver> cgroup_driver;
  OomScoreAdj oom_score_adj = OomScoreAdj::observe;
  FilesystemPlaces filesystems;
  Compat compat;
  Ranking ranking = Ranking::kubelet;
  // Whether BPF programs may kill, by a list that policy keeps for them, when memory is nearly
  // exhausted and the agent has not acted (policy/guard_list.h).
  bool guard = false;
  // Where the agent records what it sees and decides; nothing: nowhere.
  std::optional<RecordingPlace> recording = std::nullopt;
  // Where /metrics is served, "127.0.0.1:9464"; empty: nowhere.
  std::string metrics_address;
  // Where the agent serves gRPC, an absolute path; empty: nowhere; nothing: in its run directory.
  std::optional<std::string> api_socket = std::nullopt;
  // Who may use that besides root and the user the agent runs as.
  std::vector<std::uint32_t> api_uids = {};
  std::vector<std::uint32_t> api_gids = {};
  FeatureSet disabled;
  // How long a signalled victim may give no memory back before it counts as stuck and the next
  // candidate is tried.
  Duration release_timeout = std::chrono::milliseconds(500);
  // Longest time between two looks when nothing happens; lines are re-armed then.
  Duration recheck_interval = std::chrono::seconds(10);

  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace forestall
