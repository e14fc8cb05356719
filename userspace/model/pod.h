// SPDX-License-Identifier: Apache-2.0
// Kubernetes' facts about a pod: the part of the API object (core/v1 Pod) that eviction rules use.
// Immutable and shared by everything that refers to the pod.
//
// Only declared facts. The policy derives QoS class, pod request and protection from them, in one
// place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "model/pod_annotations.h"
#include "model/quantity.h"

namespace forestall {

enum class QosClass : std::uint8_t { guaranteed, burstable, best_effort };

// "Guaranteed", "Burstable", "BestEffort".
[[nodiscard]] std::string_view to_string(QosClass qos);
[[nodiscard]] std::optional<QosClass> parse_qos_class(std::string_view text);

// How kubelet names the cgroups of pods: as plain directories, or as systemd slices.
enum class CgroupDriver : std::uint8_t { cgroupfs, systemd };

// "cgroupfs", "systemd".
[[nodiscard]] std::string_view to_string(CgroupDriver driver);
[[nodiscard]] std::optional<CgroupDriver> parse_cgroup_driver(std::string_view text);

// Amounts by resource; an undeclared one is not zero.
struct ResourceList {
  std::optional<Quantity> cpu;  // cores
  std::optional<Quantity> memory;
  std::optional<Quantity> ephemeral_storage;

  friend bool operator==(const ResourceList&, const ResourceList&) = default;
};

struct PodContainer {
  std::string name;
  std::string id;  // the runtime's id, without the "containerd://"; empty: unknown
  ResourceList requests;
  ResourceList limits;
  bool restartable = false;  // an init container with restartPolicy Always: a sidecar

  friend bool operator==(const PodContainer&, const PodContainer&) = default;
};

enum class VolumeKind : std::uint8_t { empty_dir, host_path, config_map, git_repo, other };

struct PodVolume {
  std::string name;
  VolumeKind kind = VolumeKind::other;
  bool in_memory = false;              // emptyDir with medium Memory
  bool default_medium = true;          // emptyDir with no medium given
  std::optional<Quantity> size_limit;  // of an emptyDir

  friend bool operator==(const PodVolume&, const PodVolume&) = default;
};

struct Toleration {
  std::string key;             // empty with operator Exists: every key
  std::string operator_ = "";  // "Equal" (also when empty) or "Exists"
  std::string value;
  std::string effect;  // empty: every effect

  friend bool operator==(const Toleration&, const Toleration&) = default;
};

// metadata.annotations["kubernetes.io/config.source"] and ["kubernetes.io/config.mirror"].
enum class PodOrigin : std::uint8_t { api, static_file, mirror };

// status.phase, as far as it is used.
enum class PodPhase : std::uint8_t { unknown, pending, running, succeeded, failed };

struct Pod {
  std::string uid;
  std::string name;
  std::string pod_namespace;
  PodOrigin origin = PodOrigin::api;
  std::string config_hash;  // of a static pod: names its cgroup instead of the UID; otherwise empty
  PodPhase phase = PodPhase::unknown;
  bool terminating = false;  // metadata.deletionTimestamp is set
  std::optional<std::int32_t> priority;
  std::string priority_class;
  std::optional<QosClass> status_qos;
  std::optional<Duration> termination_grace;
  // spec.resources; nullopt without pod-level resources.
  std::optional<ResourceList> requests;
  std::optional<ResourceList> limits;
  ResourceList overhead;
  std::vector<PodContainer> init_containers;  // sidecars included, in order
  std::vector<PodContainer> containers;
  std::vector<PodVolume> volumes;
  std::vector<Toleration> tolerations;
  PodAnnotations annotations = {};

  friend bool operator==(const Pod&, const Pod&) = default;
};

}  // namespace forestall
