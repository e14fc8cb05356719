// SPDX-License-Identifier: Apache-2.0
// Restarts a unit by the D-Bus API of systemd (org.freedesktop.systemd1.Manager.RestartUnit) and
// waits for the job. Refused without a request:
// - the agent's own unit, by systemd's answer (GetUnitByPID). Without an answer every unit is;
// - a unit that systemd starts or stops at present.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace forestall::clients {

struct UnitRestartOptions {
  std::string bus_address{};  // empty: the system bus
  // Of the whole restart. systemd continues a job that takes longer.
  Duration timeout = std::chrono::seconds(60);
  int cancelled = -1;  // a descriptor: readable, and the wait ends
};

// Whether PID 1 is systemd, as far as this process can find out: /run/systemd/system exists.
[[nodiscard]] bool systemd_is_running();

struct UnitRestartEnd {
  // ETIMEDOUT: `timeout`. ECANCELED: `cancelled`. Others name the bus, systemd's refusal or the
  // result of the job.
  std::optional<Error> failure;
  bool begun = false;  // systemd has the request, or may have it
};

// Restarts `unit` and waits until it runs again. Thread rule: any thread; waits.
[[nodiscard]] UnitRestartEnd restart_unit(const std::string& unit,
                                          const UnitRestartOptions& options);

}  // namespace forestall::clients
