// SPDX-License-Identifier: Apache-2.0
// Overrides single keys of a configuration in force by kubelet's settings, for a replay of a
// recording: the recorded configuration is known only as it was in force.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "intake/kubelet_flags.h"
#include "intake/kubelet_settings.h"
#include "model/config.h"

namespace forestall::intake {

// The settings of a KubeletConfiguration (empty: none) and of kubelet's flags, which take
// precedence. Errors as those of load_config().
[[nodiscard]] Result<KubeletSettings> read_settings(const std::string& kubelet_config,
                                                    const GivenFlags& flags);

struct OverriddenConfig {
  Config config;
  std::vector<std::string> warnings;  // about the settings, one sentence each
};

// Each setting replaces one key, a map the whole map, as flags do in kubelet. Everything else stays
// as in `config`. Minimum reclaims and grace periods are those of `config`, as far as its
// thresholds show them. Errors: a setting is invalid, or does not fit the rest.
[[nodiscard]] Result<OverriddenConfig> override_settings(const Config& config,
                                                         const KubeletSettings& settings);

}  // namespace forestall::intake
