// SPDX-License-Identifier: Apache-2.0
#include "kernel/guard_hold.h"

#include <bpf/bpf.h>
#include <fmt/format.h>

#include <algorithm>

#include "kernel/bpf_run.h"
#include "kernel/process_ref.h"
#include "model/config.h"

namespace forestall::kernel {
namespace {

bool runs(std::uint32_t pid, std::uint64_t start) {
  return pid != 0 && is_running({static_cast<pid_t>(pid), start});
}

// Of an agent that runs with another run directory. It decides on its own.
bool has_agent(const abi_guard_other& other) {
  return runs(other.agent, other.agent_start) || runs(other.last_agent, other.last_agent_start);
}

}  // namespace

Result<void> GuardHold::find_others() {
  bpf_map_info info{};
  __u32 size = sizeof(info);
  if (bpf_obj_get_info_by_fd(bpf_map__fd(object_.maps.guard_turn), &info, &size) != 0) {
    return errno_error("bpf_obj_get_info_by_fd", "BPF map guard_turn");
  }
  object_.bss->own_turn = info.id;
  object_.bss->others_found = 0;
  bpf_iter_link_info all{};
  return run_iterator(object_.progs.guard_find_others, all);
}

// When the last list of another guard expires. What is not known lasts as long as a list can.
std::optional<MonotonicTime> GuardHold::others_until(MonotonicTime now) {
  const MonotonicTime longest = began_ + kGuardExpiryMax;
  if (const auto found = find_others(); !found) {
    reason_ = "other guards cannot be found: " + found.error().text();
    return longest;
  }
  const std::uint32_t count = object_.bss->others_found;
  std::optional<MonotonicTime> until;
  for (std::uint32_t i = 0; i < std::min<std::uint32_t>(count, ABI_GUARD_OTHERS); ++i) {
    const abi_guard_other& other = object_.bss->others[i];
    const MonotonicTime expires =
        other.unreadable != 0
            ? longest
            : std::min(from_ns(static_cast<std::int64_t>(other.expires_ns)), longest);
    if (expires <= now || (other.unreadable == 0 && has_agent(other))) continue;
    if (!until || expires > *until) until = expires;
    reason_ = fmt::format(
        "the guard of a former agent (pid {}, BPF map {}) is in force and cannot be taken over: no "
        "list of this guard fires until that expires",
        other.agent, other.map);
  }
  if (count > ABI_GUARD_OTHERS) {
    reason_ = fmt::format("{} guards of other agents were found", count);
    until = longest;
  }
  return until;
}

void GuardHold::hold(std::optional<MonotonicTime> others, MonotonicTime now) {
  until_ = others;
  if (awaits_release(now)) until_ = std::max(others.value_or(release_due_), release_due_);
  const auto ns = until_ ? static_cast<__u64>(std::max<std::int64_t>(to_ns(*until_), 0)) : 0;
  __atomic_store_n(&object_.bss->held_until, ns, __ATOMIC_SEQ_CST);
}

void GuardHold::begin(MonotonicTime now) {
  began_ = checked_ = now;
  hold(others_until(now), now);
}

void GuardHold::await_release(MonotonicTime until) {
  release_due_ = std::max(release_due_, until);
  if (!until_) {
    reason_ =
        "a former guard may have killed a workload, and this agent has no report of it: no "
        "list of this guard fires while that memory is awaited";
  }
  hold(until_, MonotonicTime());
}

void GuardHold::refresh(MonotonicTime now) {
  if (!until_) return;
  if (*until_ <= now) return hold(std::nullopt, now);
  if (now - checked_ < kRecheck) return;
  checked_ = now;
  hold(others_until(now), now);
}

std::optional<MonotonicTime> GuardHold::check_due() const {
  if (!until_) return std::nullopt;
  return std::min(*until_, checked_ + kRecheck);
}

}  // namespace forestall::kernel
