// SPDX-License-Identifier: Apache-2.0
// How many descriptors systemd keeps for a unit between two of its processes, by its D-Bus API:
// FileDescriptorStoreMax=. systemd refuses further ones silently.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace forestall::clients {

struct DescriptorStoreLimit {
  std::string unit;  // its own name
  std::uint32_t max = 0;
  // As systemd reports it, such as "252.38-1~deb12u1"; its leading number, and 0 without one.
  std::uint32_t version = 0;
};

// Of all calls together.
inline constexpr Duration kDescriptorStoreTimeout = std::chrono::seconds(2);

// Empty `unit`: that of this process. Empty `address`: the system bus. Nullopt: systemd has no
// such unit, or it is no service. Thread rule: any thread; waits.
[[nodiscard]] Result<std::optional<DescriptorStoreLimit>> read_descriptor_store_limit(
    const std::string& address, const std::string& unit, Duration timeout = kDescriptorStoreTimeout,
    const Clock& clock = SystemClock());

}  // namespace forestall::clients
