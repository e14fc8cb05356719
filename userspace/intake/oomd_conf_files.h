// SPDX-License-Identifier: Apache-2.0
// systemd-oomd's settings from where systemd has them: oomd.conf and its drop-ins.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "rulesets/managed_oom.h"
#include "text/diagnostic.h"

namespace forestall::intake {

// Of descending precedence. A file hides those of the same name in later ones.
[[nodiscard]] std::vector<std::string> systemd_directories();

// oomd.conf of the first directory that has it, then the drop-ins oomd.conf.d/*.conf of all of
// them, in the order of their names; the last value of a key counts. Without any file these are
// systemd's defaults. A file that cannot be read is an error: its values are unknown. Adds the
// paths that were read to `files`. The result is valid only if no error was added.
[[nodiscard]] Result<rulesets::OomdConf> read_oomd_conf_files(
    const std::vector<std::string>& directories,
    const std::function<Result<std::string>(const std::string& path)>& read,
    std::vector<std::string>& files, text::Findings& findings);

}  // namespace forestall::intake
