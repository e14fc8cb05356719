// SPDX-License-Identifier: Apache-2.0
// Pods in the cgroup tree: where kubelet puts them with either cgroup driver, and what a path
// contains about a pod (pkg/kubelet/cm/cgroup_manager_linux.go, qos_container_manager_linux.go).
//
//   cgroupfs  <root>/kubepods[/burstable|/besteffort]/pod<uid>
//   systemd   every part is a slice named after all parts above it, joined with '-', and a '-'
//             within a part is written '_':
//             /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid with _>.slice
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/pod.h"

namespace forestall::sources {

struct PodPath {
  std::string cgroup;  // path of the pod's own cgroup; the containers are below it
  std::string uid;     // as the API server writes it: with '-'
  QosClass qos = QosClass::guaranteed;
  // The uid is 32 hexadecimal digits without dashes: kubelet's hash of a static pod's manifest,
  // never an API server's UUID. A static pod whose manifest declares its own uid cannot be
  // identified by its path.
  bool static_pod = false;

  friend bool operator==(const PodPath&, const PodPath&) = default;
};

// The innermost pod at or above `path` (a runtime inside a pod has pods of its own); nullopt if
// there is none. Only paths below a "kubepods" part count.
[[nodiscard]] std::optional<PodPath> parse_pod_path(std::string_view path);

// The pods cgroup for kubelet's --cgroup-root: "/" gives /kubepods or /kubepods.slice, "/a" gives
// /a/kubepods or /a.slice/a-kubepods.slice. If both exist (the driver was changed), the one that
// holds pods. Nullopt if neither exists. An error if that cannot be read.
[[nodiscard]] Result<std::optional<std::string>> find_pods_cgroup(const kernel::CgroupTree& tree,
                                                                  std::string_view cgroup_root);

// Appends all pod cgroups directly below the pods cgroup or one of its QoS groups to `pods` and
// sorts them by path. After an error the listing continues, and the first error is returned.
[[nodiscard]] Result<void> list_pods(const kernel::CgroupTree& tree, const std::string& pods_cgroup,
                                     std::vector<PodPath>& pods);

}  // namespace forestall::sources
