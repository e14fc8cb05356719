// SPDX-License-Identifier: Apache-2.0
// What kubelet's settings come to: thresholds in kubelet's order with its defaults and derived
// copies, and everything around them. The one place that knows kubelet's rules for them
// (pkg/kubelet/eviction/helpers.go ParseThresholdConfig, cmd/kubelet/app/server.go,
// pkg/kubelet/apis/config/validation), whichever front a setting came in by.
//
// What kubelet refuses is refused, in its words where they are clear. Where kubelet stops at the
// first mistake, all of them are told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/diagnostic.h"
#include "api/kubelet_settings.h"
#include "model/config.h"

namespace forestall::api {

// How a threshold came to be; one for each of Config::thresholds, in their order.
struct ThresholdOrigin {
  std::string value;                           // as it was written: "1.5Gi", "10%"
  std::optional<std::string> minimum_reclaim;  // as it was written; also one of 0
  Origin key;                                  // of the signal
  Origin origin;                               // of the value
  bool from_hard = false;                      // named in evictionHard, be it by default
  bool copied = false;  // made from memory.available for allocatableMemory.available
};

// The kubelet to agree with, by the y of its version 1.y; nothing: the current one.
using KubeletMinor = std::optional<int>;

// Fills what `config` takes from kubelet's settings, its thresholds included; `config.pods` is set
// before. Appends one origin for each threshold. Only when no error was added is it of use.
void apply_settings(const KubeletSettings& settings, KubeletMinor minor, Config& config,
                    std::vector<ThresholdOrigin>& origins, Findings& findings);

}  // namespace forestall::api
