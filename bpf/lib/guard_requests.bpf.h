/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What userspace requests of the guard's object: programs that it runs itself.
 *
 * The thread that publishes lists passes an argument block to each run. Iterators have none: those
 * of the thread that prepares lists use the variables below, and no other thread uses these.
 */
#ifndef FORESTALL_BPF_GUARD_REQUESTS_BPF_H
#define FORESTALL_BPF_GUARD_REQUESTS_BPF_H

#include "bpf/lib/approval.bpf.h"
#include "bpf/lib/guard_usage.bpf.h"
#include "bpf/lib/node.bpf.h"
#include "bpf/lib/standing.bpf.h"
#include "bpf/lib/turn.bpf.h"

/* Arguments and results of guard_resolve and guard_identify. */
__u32 resolve_held; /* whether resolved_held is wanted, which walks the subtree */
__u64 resolved_cgroup;
__u64 resolved_memcg;  /* address */
__u64 resolved_held;   /* bytes without page cache */
__u64 identify_within; /* cgroup id */
struct abi_guard_victim identified;

/* Run once. Returns 0; 1: the root memcg was not found; 2: no node was found. */
SEC("syscall")
int guard_setup(void* ctx) {
  struct mem_cgroup* root = root_memcg();

  if (!root) return 1;
  return find_nodes(root) ? 0 : 2;
}

/* cgroup_subsys_state.flags, include/linux/cgroup-defs.h. */
#define CSS_ONLINE (1 << 1)
#define CSS_DYING (1 << 4)

/* Whether the cgroup of that id still has the memory cgroup at that address. */
static __always_inline int is_online(struct mem_cgroup* memcg, __u64 cgroup) {
  __u32 flags = BPF_CORE_READ(memcg, css.flags);

  return memcg_id(memcg) == cgroup && (flags & CSS_ONLINE) && !(flags & CSS_DYING);
}

/* The subject of a slot from now on. REQUIRES: no list of another subject is in force there.
 * Returns 1 if the cgroup was removed. */
SEC("syscall")
int guard_place(struct abi_guard_place* place) {
  __u64 address = place->memcg, cgroup = place->cgroup;
  __u32 slot = place->slot;
  struct guard_state* state = bpf_map_lookup_elem(&guard_states, &slot);
  struct mem_cgroup* memcg = (void*)address;

  if (!state || (cgroup && !is_online(memcg, cgroup))) return 1;
  place->limit = cgroup ? memcg_limit(memcg) : 0;
  state->memcg = cgroup ? address : 0;
  state->cgroup = cgroup;
  state->next_check_ns = 0;
  state->next_walk_ns = 0;
  state->walked_ns = 0;
  state->inactive = 0;
  return 0;
}

/* Turns of other guards, found by guard_find_others; userspace clears the number first. */
struct abi_guard_other others[ABI_GUARD_OTHERS];
__u32 others_found;
__u32 own_turn; /* id of the map */

/* An array map begins with its bpf_map. */
static __always_inline void read_other(struct abi_guard_other* other, struct bpf_map* map) {
  struct abi_guard_turn turn = {};
  __u64 at = (__u64)map + bpf_core_field_offset(struct bpf_array, pptrs);

  __builtin_memset(other, 0, sizeof(*other));
  other->map = BPF_CORE_READ(map, id);
  other->unreadable = BPF_CORE_READ(map, value_size) != sizeof(turn) ||
                      bpf_probe_read_kernel(&turn, sizeof(turn), (void*)at);
  other->expires_ns = turn.expires_ns;
  other->agent_start = turn.agent_start;
  other->last_agent_start = turn.last_agent_start;
  other->agent = turn.agent;
  other->last_agent = turn.last_agent;
}

/* Finds the turns of guards that do not share this one. Only a process with CAP_BPF can make a map
 * with BTF. */
SEC("iter/bpf_map")
int guard_find_others(struct bpf_iter__bpf_map* ctx) {
  static const char name[] = "guard_turn";
  struct bpf_map* map = ctx->map;
  char found[16] = {};
  __u32 at;

  if (!map || !BPF_CORE_READ(map, btf) || BPF_CORE_READ(map, id) == own_turn) return 0;
  BPF_CORE_READ_INTO(&found, map, name);
  for (__u32 i = 0; i < sizeof(name); i++)
    if (found[i] != name[i]) return 0;
  at = others_found++;
  barrier_var(at);
  if (at < ABI_GUARD_OTHERS) read_other(&others[at], map);
  return 0;
}

/* Whether a process other than the running one can be signalled: 1 or 0. */
SEC("syscall")
int guard_reach(void* ctx) {
  return can_signal_others();
}

/* Samples the usage that is compared with the slot's line. Returns 1 if the slot has no subject. */
SEC("syscall")
int guard_sample(struct abi_guard_sample* out) {
  struct abi_guard_sample sample = {.slot = out->slot, .exact = 1};
  __u32 index = sample.slot;
  struct guard_state* state = bpf_map_lookup_elem(&guard_states, &index);
  struct mem_cgroup* memcg;
  __s64 inactive;

  if (!state) return 1;
  if (index == ABI_GUARD_NODE) {
    if (!any_pgdat) return 1;
    sample.usage = node_working_set();
    sample.available = read_available(any_pgdat);
    *out = sample;
    return 0;
  }
  memcg = (void*)state->memcg;
  if (!memcg || memcg_id(memcg) != state->cgroup) return 1;
  sample.usage = memcg_usage(memcg);
  inactive = file_below((__u64)memcg, 0);
  sample.exact = inactive >= 0;
  if (inactive >= 0) sample.inactive_file = inactive;
  *out = sample;
  return 0;
}

/* Run on one cgroup directory (order SELF_ONLY): finds its memory cgroup. */
SEC("iter/cgroup")
int guard_resolve(struct bpf_iter__cgroup* ctx) {
  __u64 address = (__u64)ctx->cgroup;
  struct mem_cgroup* memcg;
  __s64 inactive, active;

  if (!address) return 0;
  memcg = memcg_of_cgroup((void*)address);
  resolved_cgroup = memcg ? memcg_id(memcg) : 0;
  resolved_memcg = (__u64)memcg;
  if (!resolve_held) return 0;
  inactive = file_below(resolved_memcg, 0);
  active = file_below(resolved_memcg, 1);
  /* Unknown: all of it, so that no growth is counted. */
  resolved_held = memcg_usage(memcg);
  if (inactive >= 0 && active >= 0) resolved_held = above(resolved_held, inactive + active);
  return 0;
}

/* Run on one thread: fills `identified` if it leads a process that may be killed and that lies
 * within identify_within. */
SEC("iter/task")
int guard_identify(struct bpf_iter__task* ctx) {
  struct task_struct* task = ctx->task;
  __u64 address = 0;
  __s32 tgid;

  /* As a number; see who_is(). */
  bpf_probe_read_kernel(&address, sizeof(address), &task);
  task = (void*)address;
  if (!task) return 0;
  tgid = BPF_CORE_READ(task, tgid);
  if (BPF_CORE_READ(task, pid) != tgid || is_never_killed(task, tgid) ||
      lies_within(address, identify_within) <= 0)
    return 0;
  identified.tgid = tgid;
  identified.start_ns = BPF_CORE_READ(task, start_boottime);
  identified.cgroup = identify_within;
  return 0;
}

#endif
