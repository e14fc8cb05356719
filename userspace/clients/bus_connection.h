// SPDX-License-Identifier: Apache-2.0
// A connection to D-Bus that no call waits on for long.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"

struct sd_bus;

namespace forestall::clients {

struct BusCloser {
  void operator()(sd_bus* bus) const;  // without a flush, which would wait
};
using BusConnection = std::unique_ptr<sd_bus, BusCloser>;

// Starts a connection, which calls of sd_bus_process() complete. Empty address: the system bus.
[[nodiscard]] Result<BusConnection> open_bus(const std::string& address);

// Waits until the bus accepted the client, at most for `timeout`, which is that of later calls as
// well. Empty address: the system bus.
[[nodiscard]] Result<BusConnection> connect_to_bus(const std::string& address, Duration timeout);

// To poll, right after sd_bus_process().
[[nodiscard]] short bus_events(sd_bus* bus);

}  // namespace forestall::clients
