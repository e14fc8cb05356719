// SPDX-License-Identifier: Apache-2.0
// Capacity and available of each signal, or nothing.
#include "policy/signals.h"

namespace forestall::policy {

std::optional<Level> node_level(const NodeSample& node) {
  if (!node.capacity || !node.usage || !node.inactive_file) return std::nullopt;
  return Level{*node.capacity, *node.usage, *node.inactive_file};
}

std::optional<Level> cgroup_level(const CgroupSample& cgroup, std::optional<Bytes> declared) {
  const std::optional<Bytes> capacity = declared ? declared : cgroup.limit;
  if (!capacity || !cgroup.usage || !cgroup.inactive_file) return std::nullopt;
  return Level{*capacity, *cgroup.usage, *cgroup.inactive_file};
}

}  // namespace forestall::policy
