// SPDX-License-Identifier: Apache-2.0
#include "kernel/guard_turn.h"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "bpf/abi/guard.h"
#include "kernel/guard_store.h"
#include "kernel/mapped_array.h"
#include "kernel/process_ref.h"

namespace forestall::kernel {

std::optional<bpf_map_info> map_info(int fd) {
  bpf_map_info info{};
  __u32 size = sizeof(info);
  if (bpf_object_kind(fd) != "bpf-map") return std::nullopt;
  if (bpf_obj_get_info_by_fd(fd, &info, &size) != 0) return std::nullopt;
  return info;
}

bool is_readable_turn(int fd) {
  const auto info = map_info(fd);
  return info && info->type == BPF_MAP_TYPE_ARRAY && info->key_size == sizeof(__u32) &&
         info->value_size == sizeof(abi_guard_turn) && info->max_entries == 1 &&
         (info->map_flags & BPF_F_MMAPABLE) != 0;
}

Result<void> require_no_agent(int fd) {
  const auto turn = TRY(MappedArray<abi_guard_turn>::map(fd, 1, "BPF map guard_turn"));
  const abi_guard_turn& found = *turn.data();
  const ProcessId agents[] = {{static_cast<pid_t>(found.agent), found.agent_start},
                              {static_cast<pid_t>(found.last_agent), found.last_agent_start}};
  for (const ProcessId& agent : agents) {
    if (agent.pid == 0 || agent.pid == ::getpid() || !is_running(agent)) continue;
    return Error{EBUSY, fmt::format("the guard there is of the agent with pid {}, which runs; set "
                                    "another --keep-guard",
                                    agent.pid)};
  }
  return {};
}

// Programs count crossings in the same word meanwhile.
Result<void> end_turn(int fd, std::uint32_t last) {
  const auto turn = TRY(MappedArray<abi_guard_turn>::map(fd, 1, "BPF map guard_turn"));
  __u64* holder = &turn.data()->holder;
  __u64 word = __atomic_load_n(holder, __ATOMIC_SEQ_CST);
  __u64 ended = 0;
  do {
    ended = (__u64{std::max(last, holder_of(word))} + 1) << 32 | (word & 0xffffffff);
  } while (!__atomic_compare_exchange_n(holder, &word, ended, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST));
  // Nothing is held back because of it (guard_hold.h).
  __atomic_store_n(&turn.data()->expires_ns, 0, __ATOMIC_SEQ_CST);
  return {};
}

std::optional<MonotonicTime> last_kill(int fd, MonotonicTime now) {
  const auto turn = MappedArray<abi_guard_turn>::map(fd, 1, "BPF map guard_turn");
  if (!turn) return now;
  for (const __u64& busy : turn->data()->busy) {
    if (__atomic_load_n(&busy, __ATOMIC_SEQ_CST) != 0) return now;
  }
  const __u64 ns = __atomic_load_n(&turn->data()->crossed_ns, __ATOMIC_SEQ_CST);
  if (ns == 0) return std::nullopt;
  return std::min(from_ns(static_cast<std::int64_t>(ns)), now);
}

}  // namespace forestall::kernel
