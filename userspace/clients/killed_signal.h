// SPDX-License-Identifier: Apache-2.0
// The D-Bus name of systemd-oomd, and the signal that it sends after a kill.
//
// A client that matches the signal by its sender, as desktops do, gets it only from the owner of
// the name. The name is taken only if it is free, and another program cannot take it over.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "clients/bus_connection.h"

namespace forestall::clients {

// Thread rule: one thread; calls wait.
class KilledSignal {
 public:
  // Of connecting and of one call.
  static constexpr Duration kTimeout = std::chrono::seconds(2);

  // Empty address: the system bus. An error: the bus is away, its policy refuses the name, or
  // another program has it.
  static Result<std::unique_ptr<KilledSignal>> take_name(const std::string& address);
  KilledSignal(const KilledSignal&) = delete;
  KilledSignal& operator=(const KilledSignal&) = delete;
  ~KilledSignal() = default;

  // What to poll, right after process().
  [[nodiscard]] int fd() const;
  [[nodiscard]] short events() const { return bus_events(bus_.get()); }
  // An error: the connection is of no use any more.
  [[nodiscard]] Result<void> process();
  // `reason`: memory-used or memory-pressure.
  [[nodiscard]] Result<void> send(const std::string& cgroup, const char* reason);

 private:
  explicit KilledSignal(BusConnection bus) : bus_(std::move(bus)) {}

  const BusConnection bus_;
};

}  // namespace forestall::clients
