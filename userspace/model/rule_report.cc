// SPDX-License-Identifier: Apache-2.0
#include "model/rule_report.h"

namespace forestall {

std::string_view to_string(ChainStep step) {
  switch (step) {
    case ChainStep::proceed: return "continue";
    case ChainStep::stop: return "stop";
    case ChainStep::suspended: return "suspended";
  }
  return "";
}

std::string_view to_string(RuleOutcome outcome) {
  switch (outcome) {
    case RuleOutcome::killed: return "killed";
    case RuleOutcome::dry_run: return "dry-run";
    case RuleOutcome::written: return "written";
    case RuleOutcome::held: return "held";
    case RuleOutcome::kill_limit: return "kill-limit";
    case RuleOutcome::is_protected: return "protected";
    case RuleOutcome::kill_failed: return "kill-failed";
    case RuleOutcome::empty: return "empty";
    case RuleOutcome::restart_requested: return "restart-requested";
    case RuleOutcome::hook_requested: return "hook-requested";
    case RuleOutcome::hook_pending: return "hook-pending";
    case RuleOutcome::backed_off: return "backed-off";
    case RuleOutcome::node_stalls: return "node-stalls";
  }
  return "";
}

}  // namespace forestall
