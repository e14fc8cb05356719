// SPDX-License-Identifier: Apache-2.0
// systemd-oomd's configuration file oomd.conf (src/oom/oomd.c parse_config()).
//
// As systemd does, and unlike for files of Forestall, unknown keys and bad values are warnings: a
// newer systemd adds keys to this file, and a value that does not parse leaves the default.
#pragma once

#include <string>
#include <string_view>

#include "rulesets/managed_oom.h"
#include "text/diagnostic.h"

namespace forestall::intake {

// Ignores what an earlier one refuses.
inline constexpr int kLenientSystemdVersion = 257;

// `systemd_version`: 252 refuses a duration below one second, 257 ignores it. The result is valid
// only if no error was added. `before`: what the files before it set.
[[nodiscard]] rulesets::OomdConf read_oomd_conf(std::string_view text, const std::string& file,
                                                int systemd_version, text::Findings& findings,
                                                const rulesets::OomdConf& before = {});

}  // namespace forestall::intake
