// SPDX-License-Identifier: Apache-2.0
// Label values of the metrics, and which combinations of them can occur. All sets are bounded: no
// label of a counter has the name of a tenant.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exports/counter_table.h"
#include "model/oom_kill.h"
#include "model/threshold.h"

namespace forestall::exports {

// Whose processes were killed, by the path of their cgroup.
enum class VictimClass : std::uint8_t {
  guaranteed,
  burstable,
  best_effort,
  system_service,  // below /system.slice
  other,
  unknown,  // the kernel's report did not name the cgroup
};
[[nodiscard]] std::string_view to_string(VictimClass of);
// Empty: unknown.
[[nodiscard]] VictimClass victim_class_at(std::string_view path);

// "hard", "soft", "warn" or "slow".
[[nodiscard]] std::string_view kind_of(const Threshold& threshold);

enum class ForecastResult : std::uint8_t { right, wrong, none };
[[nodiscard]] std::string_view to_string(ForecastResult result);
[[nodiscard]] ForecastResult forecast_result(const OomKill& kill);

// The kernel's constraints, and "unknown" for one that the kernel did not report.
[[nodiscard]] Label constraint_label();
[[nodiscard]] std::size_t place_of_constraint(const std::optional<Constraint>& constraint);

// The cause of a pod's eviction, as in kubelet's label (pkg/kubelet/eviction/eviction_manager.go):
// a signal, or one of the limits on local storage.
[[nodiscard]] Label eviction_signals();

// A path as a label value: Prometheus rejects a whole scrape for one value that is not UTF-8, and
// the creator of a cgroup chooses its name.
[[nodiscard]] std::string plain(std::string_view path);

// Of (action, reason): each reason belongs to one action, and node-reclaim to two (policy/step.cc).
[[nodiscard]] bool decision_occurs(CounterTable::Places places);
// Of (state): only a kill that has ended has an outcome.
[[nodiscard]] bool kill_occurs(CounterTable::Places places);
// Of (state): a dry run signals nothing, so it stays in flight or fails.
[[nodiscard]] bool dry_run_kill_occurs(CounterTable::Places places);
// Of (constraint, inaction, forecast): only an OOM of the node or of a cgroup is predicted, and
// only thresholds on cgroups warn or throttle.
[[nodiscard]] bool kernel_kill_occurs(CounterTable::Places places);
// Of (class): the agent has the cgroup of its victims.
[[nodiscard]] bool victim_occurs(CounterTable::Places places);

}  // namespace forestall::exports
