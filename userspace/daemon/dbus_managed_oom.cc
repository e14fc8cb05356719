// SPDX-License-Identifier: Apache-2.0
#include "daemon/dbus_managed_oom.h"

namespace forestall::daemon {

using rulesets::ManagedOomElement;
using rulesets::ManagedOomProperty;

Result<void> DbusManagedOom::connect() {
  units_ = TRY(clients::ManagedOomUnits::connect(address_, known_));
  return {};
}

Result<void> DbusManagedOom::refresh(bool all, const std::function<bool()>& stopping) {
  TRY(units_->refresh(all, stopping));
  known_ = units_->units();
  return {};
}

std::vector<ReportedElement> DbusManagedOom::elements() const {
  std::vector<ReportedElement> found;
  for (const auto& [path, unit] : known_) {
    if (unit.cgroup.empty()) continue;
    ManagedOomElement element;
    element.kill = true;
    element.path = unit.cgroup;
    if (unit.swap) found.push_back({unit.name, element});
    if (!unit.pressure) continue;
    element.property = ManagedOomProperty::memory_pressure;
    element.limit = unit.limit;
    element.duration = unit.duration;
    found.push_back({unit.name, element});
  }
  return found;
}

std::vector<std::string> DbusManagedOom::problems() const {
  return units_ ? units_->problems() : std::vector<std::string>();
}

}  // namespace forestall::daemon
