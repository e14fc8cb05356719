// SPDX-License-Identifier: Apache-2.0
#include "model/decision.h"

namespace forestall {

std::string_view to_string(Action action) {
  switch (action) {
    case Action::none: return "none";
    case Action::inspect: return "inspect";
    case Action::kill: return "kill";
    case Action::reclaim: return "reclaim";
  }
  return "";
}

std::string_view to_string(Reason reason) {
  switch (reason) {
    case Reason::no_data: return "no-data";
    case Reason::no_threshold_met: return "no-threshold-met";
    case Reason::release_pending: return "release-pending";
    case Reason::workloads_unread: return "workloads-unread";
    case Reason::no_candidates: return "no-candidates";
    case Reason::all_protected: return "all-protected";
    case Reason::threshold_met: return "threshold-met";
    case Reason::local_storage_limit: return "local-storage-limit";
    case Reason::in_grace: return "in-grace";
    case Reason::statistics_not_newer: return "statistics-not-newer";
    case Reason::cleanup_pending: return "cleanup-pending";
    case Reason::disk_usage_unread: return "disk-usage-unread";
    case Reason::node_reclaim: return "node-reclaim";
    case Reason::node_reclaim_sufficed: return "node-reclaim-sufficed";
    case Reason::own_limit_near: return "own-limit-near";
    case Reason::guard_shot: return "guard-shot";
    case Reason::ruleset: return "ruleset";
    case Reason::kills_freed_little: return "kills-freed-little";
    case Reason::held_by_no_candidate: return "held-by-no-candidate";
    case Reason::candidates_too_small: return "candidates-too-small";
    case Reason::within_requests: return "within-requests";
    case Reason::kill_limit_reached: return "kill-limit-reached";
    case Reason::pod_runs_again: return "pod-runs-again";
    case Reason::container_pressure: return "container-pressure";
  }
  return "";
}

std::string_view to_string(Exclusion exclusion) {
  switch (exclusion) {
    case Exclusion::none: return "none";
    case Exclusion::is_protected: return "protected";
    case Exclusion::kill_in_flight: return "kill-in-flight";
    case Exclusion::kill_failed: return "kill-failed";
    case Exclusion::empty: return "empty";
    case Exclusion::unkillable: return "unkillable";
  }
  return "";
}

}  // namespace forestall
