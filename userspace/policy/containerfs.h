// SPDX-License-Identifier: Apache-2.0
// Thresholds on containerfs. They are not configured: they follow those of the filesystem with the
// writable layers (pkg/kubelet/eviction/helpers.go UpdateContainerFsThresholds).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/config.h"
#include "model/observation.h"
#include "policy/state.h"

namespace forestall::policy {

// Hard and soft copies of the thresholds of nodefs (layouts single and split) or of imagefs, with
// limit, minimum reclaim and grace period. A configured containerfs threshold is replaced in place;
// the other copies follow the configured ones. Without an original there is no copy, since
// kubelet's is never met then. Of several originals the last one counts.
[[nodiscard]] std::vector<DerivedThreshold> containerfs_thresholds(
    const std::vector<Threshold>& configured, FilesystemLayout layout);

// The thresholds in force in this step besides the configured ones.
struct InForce {
  std::optional<FilesystemLayout> layout;
  std::shared_ptr<const std::vector<DerivedThreshold>> derived;  // null: the layout is unknown
  // Kubelet takes its list of thresholds before it derives these, so its first pass has only those
  // that replaced configured ones (Compat::containerfs_from_second_pass).
  bool only_replacements = false;
};

// Derives them in the first step with a known layout. Later layouts are ignored, because kubelet
// detects its layout once per process.
[[nodiscard]] InForce in_force(const Config& config, const State& state,
                               const Observation& observation);

}  // namespace forestall::policy
