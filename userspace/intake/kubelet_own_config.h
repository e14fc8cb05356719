// SPDX-License-Identifier: Apache-2.0
// What a kubelet does with its own configuration file, without the settings of an agent that
// override it.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "intake/config_file.h"
#include "intake/eviction_settings.h"
#include "model/config.h"

namespace forestall::intake {

struct KubeletOwnConfig {
  Config config;  // its thresholds and other settings of eviction
  // Whether it writes memory.high of containers (memory QoS). Nullopt: that depends on its version.
  std::optional<bool> writes_memory_high;
  std::optional<double> throttling_factor;  // if it does
  // Whether it writes memory.min and memory.low, which the gate MemoryQoS alone decides: without a
  // policy, current ones write 0. Nullopt: that depends on its version.
  std::optional<bool> writes_memory_protection;
};

// `minor`: of the kubelet's version; nullopt: unknown, and it has the defaults of current ones. The
// text of an error is FILE:LINE:COLUMN: message, a line for each mistake.
[[nodiscard]] Result<KubeletOwnConfig> read_kubelet_own_config(
    const std::string& file, KubeletMinor minor, const ReadFile& read = read_text_file);

}  // namespace forestall::intake
