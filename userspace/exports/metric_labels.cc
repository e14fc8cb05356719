// SPDX-License-Identifier: Apache-2.0
#include "exports/metric_labels.h"

#include <fmt/format.h>

#include "model/decision.h"
#include "model/kill.h"
#include "model/signal.h"
#include "model/workload_class.h"

namespace forestall::exports {
namespace {

constexpr std::string_view kServices = "/system.slice/";

Action action_of(Reason reason) {
  switch (reason) {
    case Reason::threshold_met:
    case Reason::local_storage_limit:
    case Reason::guard_shot:
    case Reason::ruleset:
    case Reason::container_pressure:
    case Reason::pod_runs_again: return Action::kill;
    case Reason::workloads_unread:
    case Reason::disk_usage_unread: return Action::inspect;
    default: return Action::none;
  }
}

}  // namespace

std::string_view to_string(VictimClass of) {
  switch (of) {
    case VictimClass::guaranteed: return "guaranteed";
    case VictimClass::burstable: return "burstable";
    case VictimClass::best_effort: return "best-effort";
    case VictimClass::system_service: return "system-service";
    case VictimClass::other: return "other";
    case VictimClass::unknown: return "unknown";
  }
  return "";
}

VictimClass victim_class_at(std::string_view path) {
  if (path.empty()) return VictimClass::unknown;
  switch (workload_class_at(path)) {
    case WorkloadClass::guaranteed: return VictimClass::guaranteed;
    case WorkloadClass::burstable: return VictimClass::burstable;
    case WorkloadClass::best_effort: return VictimClass::best_effort;
    case WorkloadClass::other: break;
  }
  return path.starts_with(kServices) ? VictimClass::system_service : VictimClass::other;
}

std::string_view kind_of(const Threshold& threshold) {
  if (threshold.response != Response::evict) return to_string(threshold.response);
  return threshold.hard() ? "hard" : "soft";
}

std::string_view to_string(ForecastResult result) {
  switch (result) {
    case ForecastResult::right: return "right";
    case ForecastResult::wrong: return "wrong";
    case ForecastResult::none: return "none";
  }
  return "";
}

ForecastResult forecast_result(const OomKill& kill) {
  if (!kill.forecast) return ForecastResult::none;
  return kill.forecast->right ? ForecastResult::right : ForecastResult::wrong;
}

Label constraint_label() {
  Label label = label_of<Constraint>("constraint");
  label.values.emplace_back("unknown");
  return label;
}

std::size_t place_of_constraint(const std::optional<Constraint>& constraint) {
  return place_of(constraint.value_or(static_cast<Constraint>(place_of(Constraint::memcg) + 1)));
}

Label eviction_signals() {
  Label label = label_of<Signal>("eviction_signal");
  for (std::size_t i = place_of(EvictionCause::empty_dir_limit);
       !to_string(static_cast<EvictionCause>(i)).empty(); ++i) {
    label.values.emplace_back(to_string(static_cast<EvictionCause>(i)));
  }
  return label;
}

std::string plain(std::string_view path) {
  std::string text;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      text += c;
    } else {
      text += fmt::format("\\x{:02x}", byte);
    }
  }
  return text;
}

bool decision_occurs(CounterTable::Places places) {
  const auto action = static_cast<Action>(places[0]);
  const auto reason = static_cast<Reason>(places[1]);
  if (action == Action::reclaim) return reason == Reason::node_reclaim;
  return action == action_of(reason);
}

bool kill_occurs(CounterTable::Places places) {
  const auto state = static_cast<KillState>(places[0]);
  return state == KillState::released || state == KillState::stuck || state == KillState::failed;
}

bool dry_run_kill_occurs(CounterTable::Places places) {
  const auto state = static_cast<KillState>(places[0]);
  return state == KillState::in_flight || state == KillState::failed;
}

bool kernel_kill_occurs(CounterTable::Places places) {
  const bool of_node = places[0] == place_of(Constraint::none);
  const bool of_cgroup = places[0] == place_of(Constraint::memcg);
  const bool unknown = places[0] == place_of_constraint(std::nullopt);
  const bool predicted = places[2] != place_of(ForecastResult::none);
  if (predicted && !of_node && !of_cgroup) return false;
  const bool warned = places[1] == place_of(Inaction::warn_only);
  return !warned || of_cgroup || unknown;
}

bool victim_occurs(CounterTable::Places places) {
  return places[0] != place_of(VictimClass::unknown);
}

}  // namespace forestall::exports
