// SPDX-License-Identifier: Apache-2.0
// What the manager of a user sends to systemd-oomd (io.systemd.oom).
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "rulesets/managed_oom.h"

namespace forestall::intake {

struct ManagedOomReport {
  std::vector<rulesets::ManagedOomElement> elements;  // without malformed ones
  bool oneway = false;                                // the client expects no reply
};

// One call of ReportManagedOOMCGroups. An error: it is another one, or none.
[[nodiscard]] Result<ManagedOomReport> read_managed_oom_report(std::string_view text);

}  // namespace forestall::intake
