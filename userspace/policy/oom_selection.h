// SPDX-License-Identifier: Apache-2.0
// Predicts the kernel's selection: mm/oom_kill.c out_of_memory(), select_bad_process() and
// oom_kill_process() as a pure function of their input. All of it is the same from 6.1 to 7.2, with
// one exception that is described at `predict`.
//
// In the kernel's order:
// 1. v1 memory.oom_control: no process is selected, charging tasks wait (mm/memcontrol.c
// mem_cgroup_oom).
// 2. The allocating task is dying (task_will_free_mem): it is helped to exit, no other is killed.
// 3. vm.panic_on_oom (check_panic_on_oom).
// 4. vm.oom_kill_allocating_task, not for a memcg.
// 5. The walk (oom_evaluate_task). An eligible earlier victim that is not reaped stops it, wherever
// it is; a task that is to be selected first (oom_task_origin) has LONG_MAX points.
// 6. The kill. A victim that is already dying is only marked. Otherwise all processes that share
// its mm are killed. With memory.oom.group the whole outermost such cgroup within the domain is
// killed (mem_cgroup_get_oom_group; the root has no such file), except init and processes with an
// adjustment of -1000 (oom_kill_memcg_member), and all processes that share an mm with one of
// those.
//
// A process is eligible if it is neither init nor a kernel thread and, unless the domain is a
// memcg, has a thread that may use the nodes in need (oom_cpuset_eligible): by its cpuset, or by
// its policy if the constraint is a policy. Without a constraint the nodes are those of the
// allocating task; while that is unknown, every process is eligible.
#pragma once

#include <cstddef>
#include <vector>

#include "model/oom.h"

namespace forestall::policy {

// Highest points win. Of equal ones the last in the kernel's walk wins (oom_evaluate_task skips
// only `points < chosen_points`). The walk follows the fork order for the node. For a memcg it goes
// through the tree in pre-order, then through each cgroup's own list. Equal places in it (the same
// `order`) are ordered by pid, so that the order of the processes in the scene never matters.
//
// Points are the deciding ones: LONG_MAX for a task that is to be selected first, LONG_MIN for a
// dying one that allocates and that oom_badness() would refuse. `also` is empty for a victim that
// is already dying, and may name processes outside of a memcg that share a victim's mm.
//
// Before "memcg, oom: do not bypass oom killer for dying tasks" (2025) the kernel let a dying task
// that charged a memcg pass unmarked; later ones mark it as a victim. Both give `kills_allocating`,
// since that task exits and no other is killed.
//
// O(p log c) for p processes and c cgroups of a memcg, O(p + c) for the node unless a group is
// killed.
[[nodiscard]] OomPrediction predict(const OomScene& scene);

// The selectable processes of the scene with their points, the kernel's first choice first: the
// basis of the prediction. Earlier victims are omitted, whatever their effect on the verdict.
[[nodiscard]] std::vector<OomChoice> oom_order(const OomScene& scene);

// How many further processes may die with the predicted victim: it is unknown whether they share
// its memory, or that of a process that dies with it.
[[nodiscard]] std::size_t may_die_too(const OomScene& scene, const OomPrediction& prediction);

// Indices of the processes that tie for the highest points within one cgroup (for the node:
// overall), whose order in the kernel's walk is needed. Ascending. Empty: no tie, or none that
// decides. Of a memcg's cgroups only the last in the walk with the highest points matters, and a
// verdict other than `kills` needs no order.
[[nodiscard]] std::vector<std::size_t> tied_for_first(const OomScene& scene);

}  // namespace forestall::policy
