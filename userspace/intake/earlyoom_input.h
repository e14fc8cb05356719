// SPDX-License-Identifier: Apache-2.0
// The inputs of `forestall earlyoom`: /proc/meminfo, a list of processes, regular expressions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rulesets/earlyoom.h"
#include "text/diagnostic.h"

namespace forestall::intake {

// /proc/meminfo as earlyoom reads it (meminfo.c parse_meminfo()). Without MemAvailable, an estimate
// takes its place. `file` is used in origins. The result is valid only if no error was added.
[[nodiscard]] rulesets::EarlyoomMemory read_earlyoom_meminfo(std::string_view text,
                                                             const std::string& file,
                                                             rulesets::EarlyoomVersion version,
                                                             text::Findings& findings);

// `[{"pid", "ppid", "uid", "comm", "oom_score", "oom_score_adj", "rss_kib", "threads", "state"}]`,
// in the order in which /proc lists them; the last two may be missing and do not matter.
[[nodiscard]] std::vector<rulesets::EarlyoomProcess> read_earlyoom_processes(
    std::string_view text, const std::string& file, text::Findings& findings);

// Sets which processes match the expressions of the options: POSIX extended, anywhere in comm. An
// expression that does not compile is an error of its option.
void match_earlyoom_processes(const rulesets::EarlyoomOptions& options,
                              std::vector<rulesets::EarlyoomProcess>& processes,
                              text::Findings& findings);

}  // namespace forestall::intake
