// SPDX-License-Identifier: Apache-2.0
#include "sources/oom_event.h"

#include <unistd.h>

#include <cstring>

namespace forestall::sources {
namespace {

// USER_HZ is 100: a tick of /proc/PID/stat.
constexpr std::uint64_t kTickNs = 10'000'000;

template <std::size_t Size>
void copy_name(const char (&from)[Size], std::array<char, 16>& to) {
  static_assert(Size == 16);
  std::memcpy(to.data(), from, Size);
  to.back() = '\0';
}

std::optional<Constraint> to_constraint(std::uint32_t constraint) {
  switch (constraint) {
    case ABI_OOM_CONSTRAINT_NONE: return Constraint::none;
    case ABI_OOM_CONSTRAINT_CPUSET: return Constraint::cpuset;
    case ABI_OOM_CONSTRAINT_MEMORY_POLICY: return Constraint::memory_policy;
    case ABI_OOM_CONSTRAINT_MEMCG: return Constraint::memcg;
    default: return std::nullopt;
  }
}

void take_domain(const abi_oom_kill& kill, OomKillEvent& event) {
  if ((kill.flags & ABI_OOM_EXACT) != 0) {
    event.constraint = to_constraint(kill.constraint);
    event.total_pages = static_cast<Pages>(kill.total_pages);
  } else {
    event.constraint = kill.domain != 0 ? Constraint::memcg : Constraint::none;
    event.constraint_deduced = true;
  }
  if (kill.domain == 0) return;
  event.domain = CgroupId{kill.domain};
  event.domain_usage = Bytes{static_cast<std::int64_t>(kill.domain_usage)};
  if (kill.domain_limit != 0) {
    event.domain_limit = Bytes{static_cast<std::int64_t>(kill.domain_limit)};
  }
}

}  // namespace

OomKillEvent to_event(const abi_oom_kill& kill) {
  OomKillEvent event;
  const abi_event& raw = kill.event;
  event.at = from_ns(static_cast<std::int64_t>(raw.at_ns));
  event.victim.pid = raw.tgid;
  copy_name(raw.comm, event.comm);
  event.uid = raw.uid;
  event.oom_score_adj = raw.value;
  event.cgroup = CgroupId{raw.cgroup};
  if ((kill.flags & ABI_OOM_MEMORY) != 0) {
    static const auto kPageBytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    event.victim.start_ticks = kill.start_ns / kTickNs;
    event.memory = ProcessMemory{kill.counted[ABI_TASK_FILE], kill.counted[ABI_TASK_ANON],
                                 kill.counted[ABI_TASK_SHMEM], kill.counted[ABI_TASK_SWAP],
                                 static_cast<Pages>(kill.page_table_bytes / kPageBytes)};
  }
  if ((kill.flags & ABI_OOM_POINTS) != 0) event.points = kill.points;
  take_domain(kill, event);
  if (kill.killer_tgid != 0) {
    event.killer = ProcessId{kill.killer_tgid, kill.killer_start_ns / kTickNs};
    copy_name(kill.killer_comm, event.killer_comm);
  }
  event.with_another = (kill.flags & ABI_OOM_WITH_ANOTHER) != 0;
  return event;
}

}  // namespace forestall::sources
