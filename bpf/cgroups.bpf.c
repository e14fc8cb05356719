/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events of cgroups that appear, are removed, fill or empty.
 *
 * Only the memory hierarchy counts: on a hybrid host each change happens in several hierarchies. A
 * starting container makes dozens of changes, so after one event the programs emit no other until
 * userspace has read it.
 */
#include "bpf/lib/counters.bpf.h"
#include "bpf/lib/memcg.bpf.h"
#include "bpf/lib/stalls.bpf.h"
#include "bpf/lib/watches.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Userspace clears it before it scans the tree, so a change during the scan emits an event. */
__u64 change_reported;

static __always_inline int in_memory_hierarchy(struct cgroup* cgroup) {
  return BPF_CORE_READ(cgroup, root, hierarchy_id) == memory_hierarchy;
}

static __always_inline void report_change(__u64 id, __s32 what) {
  struct abi_event* event;

  if (__sync_val_compare_and_swap(&change_reported, 0, 1)) {
    COUNT(quieted[ABI_EVENT_workload_change]);
    return;
  }
  event = event_begin(ABI_EVENT_workload_change);
  if (!event) {
    change_reported = 0;
    return;
  }
  event->cgroup = id;
  event->value = what;
  event_end(event, ABI_EVENT_workload_change);
}

SEC("raw_tp/cgroup_mkdir")
int cgroup_mkdir(struct bpf_raw_tracepoint_args* ctx) {
  struct cgroup* cgroup = (void*)ctx->args[0];

  if (in_memory_hierarchy(cgroup))
    report_change(BPF_CORE_READ(cgroup, kn, id), ABI_WORKLOAD_APPEARED);
  return 0;
}

SEC("raw_tp/cgroup_rmdir")
int cgroup_rmdir(struct bpf_raw_tracepoint_args* ctx) {
  struct cgroup* cgroup = (void*)ctx->args[0];
  __u64 id;

  if (!in_memory_hierarchy(cgroup)) return 0;
  id = BPF_CORE_READ(cgroup, kn, id);
  bpf_map_delete_elem(&stalls, &id);
  forget_cgroup(id);
  report_change(id, ABI_WORKLOAD_VANISHED);
  return 0;
}

/* (cgroup, path, populated). Not if it became empty: the tree is the same, and after each kill it
 * would be listed again. */
SEC("raw_tp/cgroup_notify_populated")
int cgroup_notify_populated(struct bpf_raw_tracepoint_args* ctx) {
  struct cgroup* cgroup = (void*)ctx->args[0];

  if ((__s32)ctx->args[2] && in_memory_hierarchy(cgroup))
    report_change(BPF_CORE_READ(cgroup, kn, id), ABI_WORKLOAD_FILLED);
  return 0;
}
