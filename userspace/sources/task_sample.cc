// SPDX-License-Identifier: Apache-2.0
#include "sources/task_sample.h"

#include <unistd.h>

#include <cstring>

namespace forestall::sources {
namespace {

// USER_HZ is 100: a tick of /proc/PID/stat (fs/proc/array.c nsec_to_clock_t of start_boottime).
constexpr std::uint64_t kTaskTickNs = 10'000'000;

Unkillable unkillable(const abi_task& task) {
  // In the order of the checks in oom_badness().
  if ((task.flags & ABI_TASK_INIT) != 0) return Unkillable::init;
  if ((task.flags & ABI_TASK_KERNEL_THREAD) != 0) return Unkillable::kernel_thread;
  if ((task.flags & ABI_TASK_NO_MEMORY) != 0) return Unkillable::no_memory;
  if (task.oom_score_adj == kOomScoreAdjMin) return Unkillable::adjusted;
  if ((task.flags & ABI_TASK_REAPED) != 0) return Unkillable::reaped;
  if ((task.flags & ABI_TASK_IN_VFORK) != 0) return Unkillable::in_vfork;
  return Unkillable::none;
}

}  // namespace

ProcessSample to_sample(const abi_task& task, kernel::RssCounting counting) {
  static const auto kPageBytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto& counters = counting == kernel::RssCounting::summed ? task.summed : task.counted;
  ProcessSample sample;
  sample.id = {task.tgid, task.start_ns / kTaskTickNs};
  sample.cgroup = CgroupId{task.cgroup};
  sample.memory_id = task.memory_id;
  sample.memory = {counters[ABI_TASK_FILE], counters[ABI_TASK_ANON], counters[ABI_TASK_SHMEM],
                   counters[ABI_TASK_SWAP], static_cast<Pages>(task.page_table_bytes / kPageBytes)};
  sample.oom_score_adj = task.oom_score_adj;
  sample.uid = task.uid;
  sample.unkillable = unkillable(task);
  sample.oom_origin = (task.flags & ABI_TASK_OOM_ORIGIN) != 0;
  sample.oom_victim = (task.flags & ABI_TASK_OOM_VICTIM) != 0;
  sample.oom_victim_reaped = (task.flags & ABI_TASK_VICTIM_REAPED) != 0;
  sample.dying = (task.flags & ABI_TASK_DYING) != 0;
  sample.nodes_allowed = task.nodes_allowed;
  sample.nodes_bound = task.nodes_bound;
  sample.order = task.start_ns;
  static_assert(sizeof(sample.comm) == sizeof(task.comm));
  std::memcpy(sample.comm.data(), task.comm, sizeof(task.comm));
  sample.comm.back() = '\0';
  return sample;
}

}  // namespace forestall::sources
