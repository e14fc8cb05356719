// SPDX-License-Identifier: Apache-2.0
// The rulesets of an agent: those of its configuration, or of oomd's.
#pragma once

#include "cli/options.h"

namespace forestall::cli {

// Sets the rulesets in force. Refuses what an agent would have to ignore, by name and place. A
// drop-in of oomd stands before the ruleset that it names, as in oomd, under its own name.
[[nodiscard]] Result<void> add_agent_rules(const Options& options, intake::LoadedConfig& loaded);

}  // namespace forestall::cli
