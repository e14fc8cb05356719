// SPDX-License-Identifier: Apache-2.0
// The agent's configuration beside the kubelet's own file, for `forestall plan` and
// `forestall doctor`.
#pragma once

#include <optional>
#include <string>

#include "forestall/v1/kubelet.pb.h"
#include "intake/config_file.h"
#include "policy/plan.h"

namespace forestall::cli {

struct ComparisonInput {
  const intake::LoadedConfig& agent;
  policy::NodeCapacity capacity;  // of the node, as far as it is known
  // Nullopt: unknown.
  std::optional<bool> cgroup_v2 = std::nullopt;
  // Whether the node is this host. If the agent's configuration names no file of the kubelet, the
  // one in the directory of nodefs is then compared.
  bool of_this_host = false;
  bool has_pods = false;  // whether the host has the kubelet's cgroup of pods
};

// Nullopt: there is no file to compare, and no sign of a kubelet.
[[nodiscard]] std::optional<v1::KubeletComparison> compare_with_kubelet(
    const ComparisonInput& input);

// For people, with a heading.
[[nodiscard]] std::string comparison_text(const v1::KubeletComparison& comparison);

}  // namespace forestall::cli
