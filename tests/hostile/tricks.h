// SPDX-License-Identifier: Apache-2.0
// What a hostile tenant does in one round: one offence, and tricks that disturb its kill.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/process_forest.h"

namespace forestall::test {

// How the tenant takes its memory.
enum class Offence : std::uint8_t {
  none,     // takes none: no kill is needed
  anon,     // private memory of one process, up to the cap of the round
  runaway,  // private memory without end: the kernel's OOM killer may be first
  shared,   // shared anonymous memory
  memfd,    // pages of a memfd that no process maps
  split,    // private memory of several processes
  tmpfs,    // a file of a tmpfs, which outlives the tenant
  sysv,     // a System V segment, which outlives the tenant
};
inline constexpr int kOffences = 8;

enum class Trick : std::uint8_t {
  deep,           // its processes are 70 to 200 levels below its group
  wide,           // 50 to 200 groups
  names,          // control characters, invalid UTF-8 and globs in names of groups and processes
  xattrs,         // user.forestall.* on its groups, forged
  threads,        // threads in different groups
  zombie_leader,  // the leader has exited, a thread holds the memory
  fork_chain,     // a process that forks and exits without end: its pid is never the listed one
  fork_storm,     // processes that fork without end
  exec_storm,     // a shell that starts programs without end
  stopped,        // stopped processes
  frozen,         // frozen processes (cgroup v2)
  zombies,        // dead processes that are not reaped
  churn,          // groups that are created and removed, and a process that moves between them
  rename,         // its group changes its name (cgroup v1)
  page_cache,     // a flood of dirty page cache
  direct_io,      // a flood of O_DIRECT writes
  hugetlb,        // huge pages, where the host has free ones
  stray_thread,   // a thread of a protected process is in its group (cgroup v1)
  recreate,       // its group is made anew at its death, with an innocent process in it
  very_wide,      // 2,000 groups: a third of the memory that it may take is the kernel's
};
inline constexpr int kTricks = 20;

[[nodiscard]] const char* name_of(Offence offence);
[[nodiscard]] const char* name_of(Trick trick);
// Nothing if this machine can play it, otherwise the reason.
[[nodiscard]] std::optional<std::string> missing_for(Trick trick);

struct RoundPlan {
  Offence offence = Offence::anon;
  std::vector<Trick> tricks;
  std::uint64_t seed = 0;  // of all other choices in the round

  [[nodiscard]] bool has(Trick trick) const;
  // Whether the memory outlives the tenant.
  [[nodiscard]] bool leaves_memory() const {
    return offence == Offence::tmpfs || offence == Offence::sysv;
  }
  [[nodiscard]] std::string text() const;  // "anon+deep+churn"
};

// One seed and one number determine a round, so that it can be played alone.
[[nodiscard]] RoundPlan plan_round(std::uint64_t seed, std::uint64_t round);

}  // namespace forestall::test
