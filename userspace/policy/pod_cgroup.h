// SPDX-License-Identifier: Apache-2.0
// The cgroup paths of a pod and its containers under kubelet
// (pkg/kubelet/cm/cgroup_manager_linux.go CgroupName.ToCgroupfs, ToSystemd,
// pod_container_manager_linux.go GetPodContainerName).
//
//   cgroupfs  <root>/kubepods[/burstable|/besteffort]/pod<uid>/<container>
//   systemd   every part is a slice named after all parts from the root on, joined with '-', and a
//             '-' within a part is written '_':
//             /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid_>.slice/
//             cri-containerd-<container>.scope
//
// Guaranteed pods are directly in kubepods. A static pod is named after the hash of its manifest,
// which is its UID in kubelet, not after the UID of its mirror in the API. The reverse direction,
// from paths to pods, is sources/pod_paths.h.
#pragma once

#include <string>

#include "model/pod.h"

namespace forestall::policy {

// The settings that determine the names on one node.
struct CgroupNaming {
  CgroupDriver driver = CgroupDriver::cgroupfs;
  // Kubelet's cgroupRoot: "/a/b" in either driver; empty is "/". A part in slice form
  // ("/a.slice/a-b.slice") stands for its last name ("b").
  std::string root = "/";
  // Of a container's scope (systemd only): "cri-containerd-", or "crio-" with CRI-O.
  std::string scope_prefix = "cri-containerd-";
};

// The pods cgroup, from the root of the hierarchy: "/kubepods.slice".
[[nodiscard]] std::string pods_cgroup(const CgroupNaming& naming);

// The cgroup of a pod, by its QoS class (qos.h).
[[nodiscard]] std::string pod_cgroup(const Pod& pod, const CgroupNaming& naming);

// The cgroup of one container of the pod; empty if its runtime id is unknown.
[[nodiscard]] std::string container_cgroup(const Pod& pod, const PodContainer& container,
                                           const CgroupNaming& naming);

}  // namespace forestall::policy
