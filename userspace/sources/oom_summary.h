// SPDX-License-Identifier: Apache-2.0
// The kernel's line "oom-kill:constraint=…", which names the domain and the victim (mm/oom_kill.c
// dump_oom_victim, mm/memcontrol.c mem_cgroup_print_oom_context).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "model/oom.h"

namespace forestall::sources {

struct OomSummary {
  // The selected process. The next line names the thread that has its memory, which differs if the
  // leader has exited.
  pid_t pid = 0;
  Constraint constraint = Constraint::none;
  std::string domain;  // path of the memory cgroup at its limit; empty: none or ambiguous
  std::string victim;  // path of the victim's; empty: ambiguous
};

// `comm` is the victim's name from the line after this one. Nullopt if the line is incomplete or of
// another form. Paths are set only if the line has a single interpretation.
[[nodiscard]] std::optional<OomSummary> parse_oom_summary(std::string_view line,
                                                          std::string_view comm);

// Whether the line is complete: it ends with ",pid=<number>,uid=<number>".
[[nodiscard]] bool oom_summary_complete(std::string_view line);

}  // namespace forestall::sources
