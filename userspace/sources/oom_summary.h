// SPDX-License-Identifier: Apache-2.0
// The kernel's line "oom-kill:constraint=…", which says in one where and whom (mm/oom_kill.c
// dump_oom_victim, mm/memcontrol.c mem_cgroup_print_oom_context).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "model/oom.h"

namespace forestall::sources {

struct OomSummary {
  // The process that was chosen. The next line names the thread that its memory was found with:
  // another one, if the leader has exited.
  pid_t pid = 0;
  Constraint constraint = Constraint::none;
  std::string domain;  // path of the memory cgroup at its limit; empty: none, or not certain
  std::string victim;  // path of the victim's; empty: not certain
};

// `comm` is the victim's name as the line after this one tells it. Nothing if the line is not whole
// or not of that form. Paths are told only if the line can be read in one way.
[[nodiscard]] std::optional<OomSummary> parse_oom_summary(std::string_view line,
                                                          std::string_view comm);

// Whether the line has come to its end: ",pid=<number>,uid=<number>".
[[nodiscard]] bool oom_summary_complete(std::string_view line);

}  // namespace forestall::sources
