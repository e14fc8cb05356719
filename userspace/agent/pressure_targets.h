// SPDX-License-Identifier: Apache-2.0
// Which cgroups the response to memory pressure of containers watches: the containers of pods that
// the loop has found, and the cgroups that the configuration names.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "kernel/cgroup_tree.h"
#include "model/container_pressure.h"
#include "model/ids.h"
#include "model/pod.h"

namespace forestall::agent {

// The cgroup of a pod. Without facts its containers are not watched, except those that were.
struct PressurePod {
  std::string path;
  CgroupId cgroup;
  std::shared_ptr<const Pod> pod;
};

struct ContainerPressureFacts {
  ContainerPressureConfig config;
  // What a lift leaves to the node, and below which it is short. Nothing: unknown.
  std::optional<Bytes> reserve;
  std::vector<PressurePod> pods;
};

// A cgroup that may be acted on.
struct PressureTarget {
  std::string subject;
  std::string path;
  CgroupId cgroup;
  std::string share;            // path of the pod's cgroup
  CgroupId workload;            // the pod's cgroup
  std::optional<QosClass> qos;  // nothing: the configuration names it
  std::optional<std::int32_t> priority;
};

struct PressureTargets {
  std::vector<PressureTarget> watched;  // each cgroup once
  // Paths of pods whose facts or containers are unknown, and of cgroups of the configuration that
  // cannot be found: what is watched of them stays watched.
  std::set<std::string> unknown_pods;
  std::uint64_t exempt = 0;
  // What a lift leaves to the node. Nothing: unknown, and the node is neither short nor calm.
  std::optional<Bytes> reserve;
  std::map<std::string, std::string> refused;  // path, and why it is not watched
};

// The containers that may be watched, and those that are exempt. `own`: the agent's cgroups; what
// holds one of them is refused, because reclaim and kills would reach the agent. A container that
// the configuration names too is one of its pod. Opens and reads cgroups.
[[nodiscard]] PressureTargets find_pressure_targets(const kernel::CgroupTree& tree,
                                                    const ContainerPressureFacts& facts,
                                                    const std::vector<std::string>& own);

}  // namespace forestall::agent
