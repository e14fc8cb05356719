// SPDX-License-Identifier: Apache-2.0
// A process with the inputs of mm/oom_kill.c oom_badness() and oom_evaluate_task(), and nothing
// else. Amounts are in pages of the running kernel, because its formula rounds in pages.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string_view>

#include "model/ids.h"

namespace forestall {

// A number of pages. Signed, because points are: a negative oom_score_adj can outweigh the memory.
using Pages = std::int64_t;

// Memory of a process (mm->rss_stat and mm->pgtables_bytes).
struct ProcessMemory {
  Pages file = 0;
  Pages anon = 0;
  Pages shmem = 0;
  Pages swap = 0;
  Pages page_tables = 0;  // pgtables_bytes / page size, rounded down

  // get_mm_rss + MM_SWAPENTS + page tables: the points before the adjustment.
  [[nodiscard]] constexpr Pages total() const { return file + anon + shmem + swap + page_tables; }
  friend bool operator==(const ProcessMemory&, const ProcessMemory&) = default;
};

// Why oom_badness() returns LONG_MIN; only `none` can be selected. In the order of the kernel's
// checks.
enum class Unkillable : std::uint8_t {
  none,
  init,           // is_global_init
  kernel_thread,  // PF_KTHREAD
  no_memory,      // find_lock_task_mm: no thread has an mm
  adjusted,       // oom_score_adj is -1000
  reaped,         // MMF_OOM_SKIP: its mm was reaped, or is shared with init
  in_vfork,       // shares the mm of its parent until it execs
};
[[nodiscard]] std::string_view to_string(Unkillable reason);

// NUMA nodes as a mask; bit i is node i. Nodes from 64 on are not represented.
using NodeMask = std::uint64_t;
inline constexpr NodeMask kAllNodes = ~NodeMask{0};

// The oom_score_adj that excludes a process from selection (OOM_SCORE_ADJ_MIN).
inline constexpr std::int32_t kOomScoreAdjMin = -1000;

// Trivially copyable: a scan fills thousands of them without allocating.
struct ProcessSample {
  ProcessId id;
  CgroupId cgroup;  // memory cgroup of the thread group leader; inode 0: unknown
  // Equal exactly for processes that share one mm; 0: unknown. An opaque number.
  std::uint64_t memory_id = 0;
  ProcessMemory memory;
  std::int32_t oom_score_adj = 0;
  std::uint32_t uid = 0;
  Unkillable unkillable = Unkillable::none;
  bool oom_origin = false;  // oom_flag_origin: swapoff and KSM are selected first
  // signal->oom_mm is set: an OOM killer already selected it, and it has not exited yet.
  bool oom_victim = false;
  // With oom_victim: its mm was reaped (MMF_OOM_SKIP), so the kernel goes on to the next process.
  bool oom_victim_reaped = false;
  // task_will_free_mem: it is exiting or has a SIGKILL pending, and will free its memory.
  bool dying = false;
  NodeMask nodes_allowed = kAllNodes;  // union over its threads of mems_allowed (cpuset)
  NodeMask nodes_bound = kAllNodes;    // union over its threads of an MPOL_BIND policy's nodes
  // Its position in the kernel's own walk, ascending: among all processes of the node, or among
  // those of one cgroup. The fork time (ns since boot), unless the scan found the exact order.
  std::uint64_t order = 0;
  std::array<char, 16> comm{};  // NUL-terminated

  [[nodiscard]] std::string_view name() const { return comm.data(); }
  // oom_badness() in a domain of `total_pages`, if it can be selected. The only copy of the
  // formula; see policy/badness.h.
  [[nodiscard]] constexpr Pages points(Pages total_pages) const {
    return memory.total() + oom_score_adj * (total_pages / 1000);
  }
  friend bool operator==(const ProcessSample&, const ProcessSample&) = default;
};

}  // namespace forestall
