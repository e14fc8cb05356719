// SPDX-License-Identifier: Apache-2.0
#include "rulesets/decision.h"

namespace forestall::rulesets {

std::string_view to_string(PluginResult result) {
  switch (result) {
    case PluginResult::proceed: return "continue";
    case PluginResult::stop: return "stop";
    case PluginResult::suspended: return "suspended";
  }
  return {};
}

std::string_view to_string(AttemptOutcome outcome) {
  switch (outcome) {
    case AttemptOutcome::killed: return "killed";
    case AttemptOutcome::failed: return "failed";
    case AttemptOutcome::dry: return "dry";
    case AttemptOutcome::hook: return "hook";
    case AttemptOutcome::written: return "written";
    case AttemptOutcome::held: return "held";
    case AttemptOutcome::not_needed: return "not-needed";
    case AttemptOutcome::backed_off: return "backed-off";
    case AttemptOutcome::node_stalls: return "node-stalls";
  }
  return {};
}

}  // namespace forestall::rulesets
