// SPDX-License-Identifier: Apache-2.0
// Interprets kubelet's settings: thresholds in kubelet's order with its defaults and derived
// copies, and all related settings. Kubelet's rules are implemented only here
// (pkg/kubelet/eviction/helpers.go ParseThresholdConfig(), cmd/kubelet/app/server.go,
// pkg/kubelet/apis/config/validation), for all sources of settings.
//
// Settings that kubelet refuses are refused, in kubelet's words where they are clear. Kubelet stops
// at the first mistake; this code reports all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "intake/kubelet_settings.h"
#include "model/config.h"
#include "text/diagnostic.h"

namespace forestall::intake {

// The source of a threshold; one for each of Config::thresholds, in their order.
struct ThresholdOrigin {
  std::string value;                           // as written: "1.5Gi", "10%"
  std::optional<std::string> minimum_reclaim;  // as written; 0 included
  text::Origin key;                            // of the signal
  text::Origin origin;                         // of the value
  bool from_hard = false;                      // from evictionHard, defaults included
  bool copied = false;  // copied from memory.available for allocatableMemory.available
};

// The kubelet version to match, as the y of 1.y; nothing: the current version.
using KubeletMinor = std::optional<int>;

// Sets what `config` takes from kubelet's settings, including its thresholds; `config.pods` must be
// set before. Appends one origin per threshold. The result is valid only if no error was added.
void apply_settings(const KubeletSettings& settings, KubeletMinor minor, Config& config,
                    std::vector<ThresholdOrigin>& origins, text::Findings& findings);

}  // namespace forestall::intake
