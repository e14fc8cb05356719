// SPDX-License-Identifier: Apache-2.0
// Thresholds on containerfs: nobody sets them, they follow those of the filesystem that the
// writable layers lie on (kubelet.md §1.5, pkg/kubelet/eviction/helpers.go
// UpdateContainerFsThresholds).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/config.h"
#include "model/observation.h"
#include "policy/state.h"

namespace forestall::policy {

// Hard and soft copies of the thresholds of nodefs (layouts single and split) or of imagefs, with
// limit, minimum reclaim and grace period. One that the operator gave is replaced in its place; the
// others follow behind the configured ones. A copy without an original is never met in kubelet, so
// there is none here. Of several originals the last one counts.
[[nodiscard]] std::vector<DerivedThreshold> containerfs_thresholds(
    const std::vector<Threshold>& configured, FilesystemLayout layout);

// What holds in this step beside the configured thresholds.
struct InForce {
  std::optional<FilesystemLayout> layout;
  std::shared_ptr<const std::vector<DerivedThreshold>> derived;  // null: the layout is not known
  // Kubelet takes its list of thresholds before it derives these, so that its first pass sees only
  // those that took the place of configured ones (Compat::containerfs_from_second_pass).
  bool only_replacements = false;
};

// Derives them in the first step that knows the layout; later layouts are not looked at, since
// kubelet detects its own once per process.
[[nodiscard]] InForce in_force(const Config& config, const State& state,
                               const Observation& observation);

}  // namespace forestall::policy
