// SPDX-License-Identifier: Apache-2.0
// The settings of memory QoS in a KubeletConfiguration: memoryThrottlingFactor,
// memoryReservationPolicy, the gate MemoryQoS, and the reservations that leave the allocatable
// memory. kubelet_config.h reads the settings of eviction from the same file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "model/memory_qos.h"
#include "text/diagnostic.h"

namespace forestall::intake {

// Sets what the file defines in `settings`, for a kubelet of version settings.kubelet_minor. With
// the `capacity` of the node it also sets the allocatable memory; 0 is an unknown capacity, of
// which nothing is allocatable. `file` is used in origins. The result is valid only if no error was
// added.
void read_memory_qos_config(std::string_view text, const std::string& file,
                            std::optional<Bytes> capacity, MemoryQosSettings& settings,
                            text::Findings& findings);

// The y of a version like "1.36", "v1.36.2" or "1.36.0-rc.1"; nothing for any other text.
[[nodiscard]] std::optional<int> parse_kubelet_minor(std::string_view version);

}  // namespace forestall::intake
