// SPDX-License-Identifier: Apache-2.0
// Whom the kernel would choose: mm/oom_kill.c out_of_memory(), select_bad_process() and
// oom_kill_process() as a pure function of what they look at (6.1 to 7.2, which agree on all of
// this; the one place where they do not is told at `predict`).
//
// In the kernel's order:
// 1. v1 memory.oom_control: nobody is chosen, who charges waits (mm/memcontrol.c mem_cgroup_oom).
// 2. Who allocates is dying (task_will_free_mem): it is helped to die, nobody else goes.
// 3. vm.panic_on_oom (check_panic_on_oom).
// 4. vm.oom_kill_allocating_task, not for a memcg.
// 5. The walk (oom_evaluate_task). An eligible victim of before that is not reaped stops it,
//    wherever it stands; who asked to be chosen first (oom_task_origin) has LONG_MAX points.
// 6. The kill. A victim that is dying already is only marked. Else all goes that shares its mm, and
//    with memory.oom.group the whole of the outermost such cgroup within the domain
//    (mem_cgroup_get_oom_group; the root has no such file), but for init and adjusted ones
//    (oom_kill_memcg_member), and who shares the mm of one of those.
//
// Eligible is who is neither init nor a kernel thread and, unless the domain is a memcg, has a
// thread that may use the nodes in need (oom_cpuset_eligible): by its cpuset, or by its policy if
// the constraint is a policy. Without a constraint the nodes are those of who allocates; while
// nobody is known to, everybody is eligible.
#pragma once

#include <cstddef>
#include <vector>

#include "model/oom.h"

namespace forestall::policy {

// Highest points win. Of equal ones the last in the kernel's walk does (oom_evaluate_task passes
// over `points < chosen_points` only): the walk goes by fork order for the node, and for a memcg
// through the tree in pre-order, then through each cgroup's own list. Equal places in it (the same
// `order`) go by pid, so that the order of the processes in the scene never matters.
//
// Points are those that decide: LONG_MAX for who asked to be chosen first, LONG_MIN for a dying one
// that allocates and that oom_badness() would refuse. `also` is empty for a victim that is dying
// already, and may name processes outside of a memcg that share a victim's mm.
//
// Before "memcg, oom: do not bypass oom killer for dying tasks" (2025) a dying task that charged a
// memcg was let pass unmarked, later it is marked as a victim: `kills_allocating` either way, since
// it dies and nobody else does.
//
// O(p log c) for p processes and c cgroups of a memcg, O(p + c) for the node unless a group goes.
[[nodiscard]] OomPrediction predict(const OomScene& scene);

// The processes of the scene that may be chosen, with their points, the kernel's first choice
// first: what the prediction was made from. Earlier victims are left out, whatever they do to the
// verdict.
[[nodiscard]] std::vector<OomChoice> oom_order(const OomScene& scene);

// Indices of those that tie for the highest points within one cgroup (for the node: at all): whose
// order in the kernel's walk has to be known. Ascending. Empty: no tie, or none that decides: of a
// memcg's cgroups only the last in the walk with the highest points counts, and a verdict other
// than `kills` asks for no order.
[[nodiscard]] std::vector<std::size_t> tied_for_first(const OomScene& scene);

}  // namespace forestall::policy
