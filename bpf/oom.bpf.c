/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Has the kernel's OOM killer beaten us, or is it about to?
 *
 * mark_victim names who was chosen. Where fentry is permitted, the entries of the OOM path tell
 * before anybody is chosen. Writes to oom_score_adj are passed on because they change who would be.
 */
#include "bpf/lib/compat.bpf.h"
#include "bpf/lib/counters.bpf.h"
#include "bpf/lib/memcg.bpf.h"
#include "bpf/lib/watches.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* out_of_memory is called again and again while the victim dies. */
__u64 last_call_ns;

static __always_inline void describe(struct abi_event* event, struct task_struct* task) {
  event->pid = BPF_CORE_READ(task, pid);
  event->tgid = BPF_CORE_READ(task, tgid);
  event->uid = BPF_CORE_READ(task, cred, uid.val);
  event->value = BPF_CORE_READ(task, signal, oom_score_adj);
  event->cgroup = memcg_id(memcg_of_task(task));
  BPF_CORE_READ_STR_INTO(&event->comm, task, comm);
}

SEC("raw_tp/mark_victim")
int mark_victim(struct bpf_raw_tracepoint_args* ctx) {
  struct abi_event* event = event_begin(ABI_EVENT_oom_kill);

  if (!event) return 0;
  if (mark_victim_passes_task)
    describe(event, (void*)ctx->args[0]);
  else
    event->pid = event->tgid = (__s32)ctx->args[0];
  event_end(event, ABI_EVENT_oom_kill);
  return 0;
}

SEC("raw_tp/oom_score_adj_update")
int oom_score_adj_update(struct bpf_raw_tracepoint_args* ctx) {
  struct abi_event* event = event_begin(ABI_EVENT_oom_score_adj);

  if (!event) return 0;
  describe(event, (void*)ctx->args[0]);
  event_end(event, ABI_EVENT_oom_score_adj);
  return 0;
}

/* `memcg` is NULL when the whole node is out of memory. */
static __always_inline int last_call(struct mem_cgroup* memcg) {
  struct abi_event* event;

  if (!after_quiet(&last_call_ns, bpf_ktime_get_ns(), QUIET_NS)) {
    COUNT(quieted[ABI_EVENT_oom_last_call]);
    return 0;
  }
  event = event_begin(ABI_EVENT_oom_last_call);
  if (!event) return 0;
  event->cgroup = memcg ? memcg_id(memcg) : 0;
  event->pid = (__u32)bpf_get_current_pid_tgid();
  event->tgid = bpf_get_current_pid_tgid() >> 32;
  event_end(event, ABI_EVENT_oom_last_call);
  return 0;
}

static __always_inline int last_call_of(__u64 oom_control) {
  struct oom_control* oc = (void*)oom_control;

  return last_call(BPF_CORE_READ(oc, memcg));
}

SEC("fentry/mem_cgroup_out_of_memory")
int mem_cgroup_out_of_memory(void* ctx) {
  return last_call((void*)ARG(ctx, 0));
}

SEC("fentry/out_of_memory")
int out_of_memory(void* ctx) {
  return last_call_of(ARG(ctx, 0));
}

SEC("fentry/oom_kill_process")
int oom_kill_process(void* ctx) {
  return last_call_of(ARG(ctx, 0));
}
