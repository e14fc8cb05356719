// SPDX-License-Identifier: Apache-2.0
// Thresholds for which an observation has no values, and why.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"

namespace forestall {

struct UnknownThreshold {
  Threshold threshold;
  std::string subject;  // "node", or the path or glob of the cgroups
  std::string reason;

  friend bool operator==(const UnknownThreshold&, const UnknownThreshold&) = default;
};

// Every configured threshold that has no evidence, in configuration order. A threshold on the
// workloads' own limits has evidence only while a workload is near its limit.
[[nodiscard]] std::vector<UnknownThreshold> unknown_thresholds(const Config& config,
                                                               const Observation& observation,
                                                               std::span<const Evidence> evidence);

// The same as a note of an observation, with the signal as its subject.
[[nodiscard]] SourceNote to_note(const UnknownThreshold& unknown);

// Why a threshold on `signal` is unknown on this node, if it is for lack of swap.
[[nodiscard]] std::optional<std::string> swap_missing(Signal signal, const NodeSample& node);

}  // namespace forestall
