// SPDX-License-Identifier: Apache-2.0
// Restarts a unit by the D-Bus API of systemd (org.freedesktop.systemd1.Manager.RestartUnit) and
// waits for the job. Refused without a request:
// - the agent's own unit, by systemd's answer (GetUnitByPID). Without an answer every unit is;
// - a unit that systemd starts, reloads or stops for longer than UnitRestartOptions::transition.
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
  // Of its part before the request. As long as a chain of a ruleset waits at least for a restart
  // (rulesets/engine.h).
  Duration transition = std::chrono::seconds(15);
  int cancelled = -1;  // a descriptor: readable, and the wait ends
};

// Whether PID 1 is systemd, as far as this process can find out: /run/systemd/system exists.
[[nodiscard]] bool systemd_is_running();

struct UnitRestartEnd {
  // EBUSY: `transition`. ETIMEDOUT: `timeout`. ECANCELED: `cancelled`. Others name the bus,
  // systemd's refusal or the result of the job.
  std::optional<Error> failure;
  // systemd has the request, or may have it. Without it and without a failure, the unit was being
  // stopped already, and its stop is over.
  bool begun = false;
};

// Restarts `unit` and waits until it runs again, or until a stop that is under way is over. Thread
// rule: any thread; waits.
[[nodiscard]] UnitRestartEnd restart_unit(const std::string& unit,
                                          const UnitRestartOptions& options);

}  // namespace forestall::clients
