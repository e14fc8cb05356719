// SPDX-License-Identifier: Apache-2.0
// For how long tasks of the node have stalled for memory since the boot.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace forestall::cluster {

struct StallReading {
  Duration some{};
  Duration full{};

  friend bool operator==(const StallReading&, const StallReading&) = default;
};

// The text of /proc/pressure/memory; nothing: it has another form.
[[nodiscard]] std::optional<StallReading> parse_stalls(std::string_view text);
// Nothing: the kernel does not report it. In a container the file is that of the node.
[[nodiscard]] std::optional<StallReading> read_stalls(const std::string& path);

}  // namespace forestall::cluster
