// SPDX-License-Identifier: Apache-2.0
// The interface of the guard's programs.
#include <bpf/libbpf.h>

#include <forestall_guard.skel.h>
#include <algorithm>
#include <utility>

#include "bpf/abi/watch.h"
#include "kernel/bpf_counters.h"
#include "kernel/bpf_host.h"
#include "kernel/bpf_run.h"
#include "kernel/guard.h"
#include "kernel/guard_loaded.h"
#include "kernel/guard_object.h"
#include "kernel/guard_succession.h"
#include "kernel/relocation_types.h"

namespace forestall::kernel {

GuardPrograms::GuardPrograms(std::unique_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}
GuardPrograms::~GuardPrograms() = default;

Result<std::unique_ptr<GuardPrograms>> GuardPrograms::load(const GuardOptions& options,
                                                           const KernelTypes& types) {
  TRY(require_initial_pid_namespace());
  const RelocationTypes relocation_types(types, forestall_guard__elf_bytes);
  const bool try_charges = options.charge_hook && types.has_function("page_counter_try_charge");
  GuardSuccession succession = GuardSuccession::find(options.store);
  LoadedGuardObject opened = load_guard_object(relocation_types, succession, try_charges);
  const bool with_charges = opened.skeleton && try_charges;
  // A kernel may refuse fexit and permit the rest.
  if (!opened.skeleton && try_charges)
    opened = load_guard_object(relocation_types, succession, false);
  if (!opened.skeleton) return Error{opened.code, opened.refusal};
  auto loaded =
      std::make_unique<Loaded>(std::move(opened.skeleton), std::move(succession), with_charges);
  TRY(loaded->start());
  return std::unique_ptr<GuardPrograms>(new GuardPrograms(std::move(loaded)));
}

bool GuardPrograms::reaches_others() const {
  return loaded_->reaches_others;
}

const std::string& GuardPrograms::evidence() const {
  return loaded_->evidence;
}

Result<abi_guard_victim> GuardPrograms::identify(pid_t pid, CgroupId workload) {
  return loaded_->identify(pid, workload);
}

Result<std::vector<std::size_t>> GuardPrograms::arm(std::span<const GuardList> lists) {
  return loaded_->arm(lists);
}

Result<void> GuardPrograms::protect(std::span<const GuardProtected> groups) {
  return loaded_->protect(groups);
}

Result<void> GuardPrograms::stand(const StandingGuardList& list) {
  return loaded_->stand(list);
}

void GuardPrograms::withdraw_standing() {
  loaded_->withdraw_standing();
}

// Never brings it forward: the programs and the watchdog set it, too.
void GuardPrograms::postpone_standing(MonotonicTime until) {
  const auto ns = static_cast<__u64>(std::max<std::int64_t>(to_ns(until), 0));
  __u64& word = loaded_->skeleton->bss->standing_not_before;
  __u64 found = __atomic_load_n(&word, __ATOMIC_SEQ_CST);
  while (found < ns && !__atomic_compare_exchange_n(&word, &found, ns, false, __ATOMIC_SEQ_CST,
                                                    __ATOMIC_SEQ_CST)) {
  }
}

void GuardPrograms::decide_until(MonotonicTime until) {
  const auto ns = static_cast<__u64>(std::max<std::int64_t>(to_ns(until), 0));
  __atomic_store_n(&loaded_->skeleton->bss->loop_decides_until, ns, __ATOMIC_SEQ_CST);
}

void GuardPrograms::end_waits() {
  __atomic_store_n(&loaded_->skeleton->bss->standing_not_before, 0, __ATOMIC_SEQ_CST);
  decide_until(MonotonicTime());
}

bool GuardPrograms::standing_has_fired() const {
  return loaded_->standing_has_fired();
}

Result<std::uint64_t> GuardPrograms::find_memcg(int fd, CgroupId cgroup) {
  return loaded_->find_memcg(fd, cgroup);
}

Result<GuardMemcg> GuardPrograms::memcg_of(int fd, CgroupId cgroup) {
  return loaded_->memcg_of(fd, cgroup);
}

void GuardPrograms::disarm() {
  loaded_->disarm();
}

bool GuardPrograms::armed() const {
  return loaded_->armed();
}

bool GuardPrograms::in_force(MonotonicTime now) const {
  return loaded_->in_force(now);
}

std::uint64_t GuardPrograms::reports_read() const {
  return loaded_->reports_read();
}

int GuardPrograms::fd() const {
  return ring_buffer__epoll_fd(loaded_->ring.get());
}

void GuardPrograms::drain(const Visit& visit, const Visit& visit_former) {
  loaded_->drain(visit, visit_former);
}

bool GuardPrograms::outlives_process() const {
  return loaded_->succession.keeps();
}

Result<bool> GuardPrograms::withdraw_from_store() {
  return loaded_->succession.withdraw();
}

const std::string& GuardPrograms::store_problem() const {
  return loaded_->succession.problem();
}

std::optional<MonotonicTime> GuardPrograms::held_until() const {
  return loaded_->hold.until();
}

const std::string& GuardPrograms::hold_reason() const {
  return loaded_->hold.reason();
}

std::optional<MonotonicTime> GuardPrograms::hold_check_due() const {
  return loaded_->hold.check_due();
}

void GuardPrograms::check_hold(MonotonicTime now) {
  loaded_->hold.refresh(now);
}

bool GuardPrograms::awaits_release(MonotonicTime now) const {
  return loaded_->hold.awaits_release(now);
}

bool GuardPrograms::waits() const {
  return loaded_->succession.waits();
}

bool GuardPrograms::take_over(MonotonicTime now) {
  return loaded_->take_over(now);
}

Result<bool> GuardPrograms::former_ended() {
  return loaded_->succession.former_ended();
}

std::uint64_t GuardPrograms::crossings() const {
  return loaded_->succession.crossings();
}

Result<void> GuardPrograms::evaluate() {
  __u32 here = ABI_GUARD_NO_CLOCK;
  TRY(run_program(loaded_->skeleton->progs.guard_start_clock, here));
  return {};
}

Result<GuardUsage> GuardPrograms::usage(CgroupId subject) const {
  const auto slot =
      subject.inode == 0 ? std::optional<std::size_t>(ABI_GUARD_NODE) : loaded_->slot_of(subject);
  if (!slot) return Error{ENOENT, "the guard has no list for this cgroup"};
  abi_guard_sample sample{};
  sample.slot = static_cast<__u32>(*slot);
  const int failure = TRY(run_program(loaded_->skeleton->progs.guard_sample, sample));
  if (failure != 0) return Error{ENODEV, "the guard's subject is gone"};
  GuardUsage usage{Bytes{static_cast<std::int64_t>(sample.usage)},
                   Bytes{static_cast<std::int64_t>(sample.inactive_file)},
                   sample.exact != 0,
                   {},
                   {}};
  if (subject == CgroupId{} && sample.available != ABI_NOT_AVAILABLE) {
    usage.available = Bytes{static_cast<std::int64_t>(sample.available)};
    usage.taken = Bytes{static_cast<std::int64_t>(abi_node_taken(sample.available))};
  }
  return usage;
}

abi_guard_counts GuardPrograms::counts() const {
  return loaded_->skeleton->bss->counts;
}

Result<std::vector<BpfCounter>> GuardPrograms::counters_by_name() const {
  const __u32 key = 0;
  // bpf/lib counts its failures in a map of its own in each object.
  const auto shared = TRY(sum_over_cpus<abi_counters>(loaded_->skeleton->maps.counters, &key));
  std::vector<BpfCounter> all;
  append_failures("guard", shared, all);
  append_counters("guard", counts(), all);
  return all;
}

std::uint32_t GuardPrograms::clocks() const {
  return loaded_->running_clocks();
}

const std::optional<Error>& GuardPrograms::clock_problem() const {
  return loaded_->clock_problem();
}

}  // namespace forestall::kernel
