// SPDX-License-Identifier: Apache-2.0
// The options of the standalone senpai, as a JSON object: {"cgroup": "/a", "min-size": 104857600}.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rulesets/standalone_senpai.h"
#include "text/diagnostic.h"

namespace forestall::intake {

// Keys may be written as min-size, min_size or minSize. `file` is the name in findings. Nothing
// after an error.
[[nodiscard]] std::optional<rulesets::StandaloneSenpai> parse_senpai_config(
    const std::string& file, std::string_view text, text::Findings& findings);

}  // namespace forestall::intake
