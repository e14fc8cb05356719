// SPDX-License-Identifier: Apache-2.0
// What a prekill hook gets on its standard input or socket.
#pragma once

#include <string>

#include "model/record.h"

namespace forestall::agent {

// One line of JSON: {"version", "hook", "run", "ruleset", "detectors", "action", "waitsMs",
// "victim": {"cgroup", "cgroupId", "workload"}, "record"}. `workload` is a v1.WorkloadSample, null
// if the cgroup is none; `record` is the v1.Record of the evaluation, without the other workloads.
[[nodiscard]] std::string hook_input(const Record& record, const RuleReport& ruleset,
                                     const RuleActionReport& action, const RuleAttempt& attempt);

}  // namespace forestall::agent
