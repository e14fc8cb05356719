// SPDX-License-Identifier: Apache-2.0
// The kernel's lists of small numbers, as in /sys/devices/system/cpu/possible and
// /sys/devices/system/node/has_memory: "0-3,8,10-11".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace forestall::kernel {

// The numbers in ascending order; empty text is an empty list. Nothing for text that is not such a
// list, for a list that does not ascend, and for numbers of `limit` or more.
[[nodiscard]] std::optional<std::vector<std::uint32_t>> parse_number_list(std::string_view text,
                                                                          std::uint32_t limit);

}  // namespace forestall::kernel
