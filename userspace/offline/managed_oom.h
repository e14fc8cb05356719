// SPDX-License-Identifier: Apache-2.0
// What `check-config` and `rules` read for systemd's ManagedOOM properties.
#pragma once

#include <string>
#include <vector>

#include "cli/managed_oom_command.h"
#include "cli/options.h"
#include "cli/pod_input.h"
#include "intake/managed_oom_messages.h"
#include "rulesets/managed_oom.h"
#include "text/diagnostic.h"
#include "text/json_output.h"

namespace forestall::cli {

struct ManagedOomInput {
  int systemd_version = 257;
  rulesets::OomdConf conf;
  rulesets::ManagedOomRules rules;   // after all messages
  std::vector<std::string> refused;  // what a user may not report
};

// The result is valid only if no error was added.
[[nodiscard]] ManagedOomInput read_managed_oom(const ManagedOomOptions& options,
                                               text::Findings& findings);

}  // namespace forestall::cli
