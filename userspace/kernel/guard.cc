// SPDX-License-Identifier: Apache-2.0
#include "kernel/guard.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <sched.h>
#include <unistd.h>

#include <forestall_guard.skel.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <map>
#include <utility>

#include "base/job_thread.h"
#include "kernel/bpf_host.h"
#include "kernel/bpf_log.h"
#include "kernel/bpf_run.h"
#include "kernel/guard_loaded.h"
#include "kernel/guard_succession.h"
#include "kernel/mapped_guard_lists.h"
#include "kernel/scheduling.h"

namespace forestall::kernel {
namespace {

__u64 amount(Bytes bytes, std::int64_t at_least = 0) {
  return static_cast<__u64>(std::max(bytes.count, at_least));
}

}  // namespace

Result<void> GuardPrograms::Loaded::attach() {
  const BpfLog quiet;
  std::string hooks;
  const auto attach_one = [&](bpf_program* program, bpf_link*& link, const char* name) {
    if (bpf_program__fd(program) < 0) return;
    link = bpf_program__attach(program);
    if (link != nullptr) hooks += std::string(", ") + name;
  };
  auto& links = skeleton->links;
  auto& programs = skeleton->progs;
  attach_one(programs.guard_memcg_reclaim, links.guard_memcg_reclaim, "memcg reclaim");
  attach_one(programs.guard_direct_reclaim, links.guard_direct_reclaim, "direct reclaim");
  if (with_charges_) attach_one(programs.guard_charge, links.guard_charge, "charges");
  evidence = std::string(reaches_others ? "bpf_send_signal_task: any approved process"
                                        : "bpf_send_signal: an approved process while it runs") +
             "; clocks on " + std::to_string(cpus_.size()) + " CPUs" + hooks;
  return {};
}

Result<void> GuardPrograms::Loaded::start() {
  cpus_ = possible_numbers("/sys/devices/system/cpu/possible");
  if (cpus_.empty()) cpus_ = {0};
  if (cpus_.size() > ABI_GUARD_CPUS) cpus_.resize(ABI_GUARD_CPUS);
  mapped_.emplace(TRY(MappedLists::map(*skeleton)));
  TRY(open_rings());
  const int found = TRY(run_program(skeleton->progs.guard_setup));
  if (found == 1) return error("BPF guard: the root memory cgroup was not found");
  reaches_others = TRY(run_program(skeleton->progs.guard_reach)) == 1;
  starter_ = TRY(base::JobThread::create("guard-clocks", [this] { start_clocks(); }));
  TRY(attach());
  hold.begin(SystemClock().now());
  return keep();
}

Result<void> GuardPrograms::Loaded::open_rings() {
  const auto visit = [](void* self, void* record, std::size_t size) {
    if (size >= sizeof(abi_guard_report)) {
      static_cast<Loaded*>(self)->note(*static_cast<const abi_guard_report*>(record));
    }
    return 0;
  };
  const auto visit_former = [](void* self, void* record, std::size_t size) {
    if (size >= sizeof(abi_guard_report)) {
      static_cast<Loaded*>(self)->note_former(*static_cast<const abi_guard_report*>(record));
    }
    return 0;
  };
  ring.reset(ring_buffer__new(bpf_map__fd(skeleton->maps.ring), visit, this, nullptr));
  if (!ring) return errno_error("ring_buffer__new", "BPF map ring of the guard");
  for (const int former : succession.rings()) {
    if (ring_buffer__add(ring.get(), former, visit_former, this) != 0) {
      return errno_error("ring_buffer__add", "BPF map ring of the former guard");
    }
  }
  return {};
}

// The clocks' map has the timers, and their programs with every map that these use.
Result<void> GuardPrograms::Loaded::keep() {
  const auto& maps = skeleton->maps;
  const auto& links = skeleton->links;
  std::vector<GuardSuccession::Object> objects{{"clocks", bpf_map__fd(maps.guard_clocks)},
                                               {"ring", bpf_map__fd(maps.ring)}};
  const std::pair<const char*, const bpf_link*> hooks[] = {
      {"memcg-reclaim", links.guard_memcg_reclaim},
      {"direct-reclaim", links.guard_direct_reclaim},
      {"charges", links.guard_charge}};
  for (const auto& [name, link] : hooks) {
    if (link != nullptr) objects.push_back({name, bpf_link__fd(link)});
  }
  TRY(succession.begin(bpf_map__fd(maps.guard_turn), objects));
  if (!succession.waits()) await_former_release(SystemClock().now());
  return {};
}

// ---- clocks ----

bool GuardPrograms::Loaded::runs(std::size_t cpu) const {
  return __atomic_load_n(&skeleton->bss->running[cpu], __ATOMIC_SEQ_CST) != 0;
}

std::uint32_t GuardPrograms::Loaded::running_clocks() const {
  std::uint32_t clocks = 0;
  for (std::size_t i = 0; i < cpus_.size(); ++i) clocks += runs(i) ? 1 : 0;
  return clocks;
}

// On the starter's thread: moves to each CPU without a running clock and starts it there. A CPU
// that is offline or outside of our cpuset (EINVAL) gets none; another hook signals the tasks that
// run there.
void GuardPrograms::Loaded::start_clocks() {
  use_service_priority();
  start_problem_.reset();
  // Again for a list that was armed meanwhile.
  do {
    visit_cpus(restart_all_.exchange(false));
  } while (restart_all_);
}

void GuardPrograms::Loaded::visit_cpus(bool every_clock) {
  const auto keep = [this](Error problem) {
    if (!start_problem_) start_problem_ = std::move(problem);
  };
  const std::size_t bytes = CPU_ALLOC_SIZE(ABI_GUARD_CPUS);
  std::vector<cpu_set_t> before(bytes / sizeof(cpu_set_t) + 1);
  if (::sched_getaffinity(0, bytes, before.data()) < 0) {
    return keep(errno_error("sched_getaffinity", "of the thread that starts the guard's clocks"));
  }
  std::vector<cpu_set_t> one(before.size());
  for (std::size_t i = 0; i < cpus_.size(); ++i) {
    if (runs(i) && !every_clock) continue;
    CPU_ZERO_S(bytes, one.data());
    CPU_SET_S(cpus_[i], bytes, one.data());
    if (::sched_setaffinity(0, bytes, one.data()) != 0) {
      if (errno != EINVAL) {
        keep(errno_error("sched_setaffinity", "to CPU " + std::to_string(cpus_[i])));
      }
      continue;
    }
    auto index = static_cast<__u32>(i);
    if (auto ran = run_program(skeleton->progs.guard_start_clock, index); !ran) keep(ran.error());
  }
  if (::sched_setaffinity(0, bytes, before.data()) != 0) {
    keep(errno_error("sched_setaffinity", "back to the CPUs that the agent may use"));
  }
}

void GuardPrograms::Loaded::start_stopped_clocks() {
  // A clock that is about to stop reads this once more.
  __atomic_fetch_add(&skeleton->bss->armings, 1, __ATOMIC_SEQ_CST);
  if (starter_->finish()) clock_problem_ = start_problem_;
  // While the last start is under way, it finds the stopped clocks itself.
  if (running_clocks() < cpus_.size() || restart_all_) static_cast<void>(starter_->start());
}

// ---- lists ----

std::optional<std::size_t> GuardPrograms::Loaded::slot_of(CgroupId subject) const {
  const auto end = slots_.begin() + ABI_GUARD_STANDING;
  const auto found =
      std::find_if(slots_.begin(), end, [&](const Slot& slot) { return slot.subject == subject; });
  if (found == end) return std::nullopt;
  return static_cast<std::size_t>(found - slots_.begin());
}

Result<void> GuardPrograms::Loaded::resolve(int fd, CgroupId cgroup, bool with_usage) const {
  skeleton->bss->resolve_held = with_usage ? 1 : 0;
  skeleton->bss->resolved_cgroup = 0;
  if (run_cgroup_iterator(skeleton->progs.guard_resolve, fd).ok() &&
      skeleton->bss->resolved_cgroup == cgroup.inode) {
    return {};
  }
  return Error{ENOENT, "the cgroup has no memory cgroup of its own"};
}

Result<std::uint64_t> GuardPrograms::Loaded::find_memcg(int fd, CgroupId cgroup) const {
  TRY(resolve(fd, cgroup, /*with_usage=*/false));
  return skeleton->bss->resolved_memcg;
}

Result<GuardMemcg> GuardPrograms::Loaded::memcg_of(int fd, CgroupId cgroup) const {
  TRY(resolve(fd, cgroup, /*with_usage=*/true));
  return GuardMemcg{skeleton->bss->resolved_memcg,
                    Bytes{static_cast<std::int64_t>(skeleton->bss->resolved_held)}};
}

// Returns the limit of a cgroup. Inode 0: the node, which has none.
Result<Bytes> GuardPrograms::Loaded::place(std::size_t slot, CgroupId cgroup,
                                           std::uint64_t memcg) const {
  abi_guard_place argument{static_cast<__u32>(slot), 0, memcg, cgroup.inode, 0};
  if (TRY(run_program(skeleton->progs.guard_place, argument)) == 0) {
    return Bytes{static_cast<std::int64_t>(argument.limit)};
  }
  return Error{ENOENT, "the guard's subject is gone"};
}

// The slot of the list's subject; assigns one if it has none. Nothing: no slot is free, or the
// cgroup is gone.
std::optional<std::size_t> GuardPrograms::Loaded::take_slot(const GuardList& list) {
  if (const auto present = slot_of(list.subject)) return present;
  const bool is_node = list.subject.inode == 0;
  std::size_t slot = ABI_GUARD_NODE;
  if (!is_node) {
    const auto end = slots_.begin() + ABI_GUARD_STANDING;
    const auto free =
        std::find_if(slots_.begin() + 1, end, [](const Slot& one) { return !one.subject; });
    if (free == end) return std::nullopt;
    slot = static_cast<std::size_t>(free - slots_.begin());
    if (!place(slot, list.subject, list.memcg).ok()) return std::nullopt;
  }
  slots_[slot].subject = list.subject;
  slots_[slot].firings_read = mapped_->firings(slot);
  return slot;
}

void GuardPrograms::Loaded::publish(const GuardList& list, std::size_t slot) {
  Slot& mine = slots_[slot];
  // The slot fired and drain() has not reported it yet, so this list was made without that report.
  if (mapped_->firings(slot) != mine.firings_read) return;
  if (list.reports_read && *list.reports_read != reports_read_) return;
  mine.expires = list.expires;
  if (list.victims.empty()) return mapped_->withdraw(slot);
  abi_guard_list fresh{};
  fresh.generation = ++mine.generation;
  fresh.line = amount(list.line, 1);
  fresh.inactive_file = amount(list.inactive_file);
  fresh.expires_ns = static_cast<__u64>(std::max<std::int64_t>(to_ns(list.expires), 0));
  fresh.firings_read = mine.firings_read;
  const std::size_t count = std::min<std::size_t>(list.victims.size(), ABI_GUARD_VICTIMS);
  fresh.victim_count = static_cast<__u32>(count);
  std::copy_n(list.victims.begin(), count, fresh.victims);
  mapped_->publish(slot, fresh);
}

void GuardPrograms::Loaded::release(std::size_t slot) {
  mapped_->withdraw(slot);
  slots_[slot].subject.reset();
}

Result<std::vector<std::size_t>> GuardPrograms::Loaded::arm(std::span<const GuardList> lists) {
  for (std::size_t slot = 0; slot < ABI_GUARD_STANDING; ++slot) {
    const auto& subject = slots_[slot].subject;
    if (subject && std::ranges::find(lists, *subject, &GuardList::subject) == lists.end()) {
      release(slot);
    }
  }
  std::vector<std::size_t> failed;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (const auto slot = take_slot(lists[i])) {
      publish(lists[i], *slot);
    } else {
      failed.push_back(i);
    }
  }
  const MonotonicTime now = SystemClock().now();
  if (!lists.empty() && regular_until_ < now) restart_all_ = true;
  regular_until_ = MonotonicTime();
  for (const GuardList& list : lists) regular_until_ = std::max(regular_until_, list.expires);
  note_expiry();
  hold.refresh(now);
  if (armed()) start_stopped_clocks();
  return failed;
}

Result<void> GuardPrograms::Loaded::stand(const StandingGuardList& list) {
  Slot& mine = slots_[ABI_GUARD_STANDING];
  if (mine.subject != list.subject) {
    withdraw_standing();
    if (list.subject == CgroupId{}) TRY(place(ABI_GUARD_STANDING, {}, 0));
  }
  if (list.subject != CgroupId{}) TRY(place_standing(list));
  mine.subject = list.subject;
  if (standing_has_fired()) return Error{EBUSY, "the guard's standing list has fired"};
  abi_guard_list fresh{};
  fresh.generation = ++mine.generation;
  fresh.line = amount(list.line, 1);
  fresh.usage = amount(list.usage);
  fresh.inactive_file = amount(list.inactive_file);
  fresh.limit = amount(list.limit);
  fresh.expires_ns = static_cast<__u64>(std::max<std::int64_t>(to_ns(list.expires), 0));
  fresh.firings_read = mine.firings_read;
  fresh.by_growth = list.by_growth ? 1 : 0;
  fresh.workload_count =
      static_cast<__u32>(std::min<std::size_t>(list.workloads.size(), ABI_STANDING_WORKLOADS));
  mapped_->publish(fresh, list);
  mine.expires = list.expires;
  standing_until_ = list.expires;
  note_expiry();
  hold.refresh(SystemClock().now());
  start_stopped_clocks();
  return {};
}

// Each time, for its limit.
Result<void> GuardPrograms::Loaded::place_standing(const StandingGuardList& list) const {
  const Bytes limit = TRY(place(ABI_GUARD_STANDING, list.subject, list.memcg));
  if (amount(limit) == amount(list.limit)) return {};
  return Error{EAGAIN, "the limit of the guard's subject has changed"};
}

void GuardPrograms::Loaded::withdraw_standing() {
  release(ABI_GUARD_STANDING);
  standing_until_ = MonotonicTime();
  note_expiry();
}

void GuardPrograms::Loaded::note_expiry() {
  const MonotonicTime until = std::max(regular_until_, standing_until_);
  succession.set_expiry(until == MonotonicTime() ? std::nullopt : std::optional(until));
}

// Held back before it has the turn, so that no list of this guard fires in between. Clocks that had
// no list to wait for have stopped.
bool GuardPrograms::Loaded::take_over(MonotonicTime now) {
  if (!succession.waits()) return true;
  if (!succession.take_over(now, [&] { await_former_release(now); })) return false;
  if (armed()) start_stopped_clocks();
  return true;
}

bool GuardPrograms::Loaded::standing_has_fired() const {
  return mapped_->firings(ABI_GUARD_STANDING) != slots_[ABI_GUARD_STANDING].firings_read;
}

// New ones first, so that a group that stays is never missing.
Result<void> GuardPrograms::Loaded::protect(std::span<const GuardProtected> groups) {
  const int map = bpf_map__fd(skeleton->maps.guard_protected);
  std::map<std::uint64_t, __u32> wanted;
  for (const GuardProtected& group : groups) {
    wanted[group.cgroup.inode] = group.with_descendants ? 1 : 0;
  }
  for (const auto& [cgroup, whole] : wanted) {
    const auto known = protected_.find(cgroup);
    if (known != protected_.end() && known->second == whole) continue;
    if (bpf_map_update_elem(map, &cgroup, &whole, BPF_ANY) != 0) {
      return errno_error("write a protected cgroup to", "BPF map guard_protected");
    }
    protected_[cgroup] = whole;
  }
  std::erase_if(protected_, [&](const auto& known) {
    return !wanted.contains(known.first) && bpf_map_delete_elem(map, &known.first) == 0;
  });
  return {};
}

void GuardPrograms::Loaded::disarm() {
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) release(slot);
  regular_until_ = standing_until_ = MonotonicTime();
  note_expiry();
}

bool GuardPrograms::Loaded::armed() const {
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (mapped_->published(slot)) return true;
  }
  return false;
}

bool GuardPrograms::Loaded::in_force(MonotonicTime now) const {
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (mapped_->published(slot) && now < slots_[slot].expires) return true;
  }
  return false;
}

// ---- reports ----

void GuardPrograms::Loaded::count(const abi_guard_report& report) {
  if (report.kind == ABI_GUARD_CROSSED || report.kind == ABI_GUARD_KILLED) ++reports_read_;
}

void GuardPrograms::Loaded::note(const abi_guard_report& report) {
  count(report);
  if (report.kind == ABI_GUARD_CROSSED) {
    if (report.slot < slots_.size()) slots_[report.slot].firings_read = report.firings;
  }
  if (visit_ != nullptr && *visit_) (*visit_)(report);
}

// A report without a victim is of a line that was reached, and of no counted crossing.
void GuardPrograms::Loaded::note_former(const abi_guard_report& report) {
  count(report);
  if (report.kind == ABI_GUARD_CROSSED) {
    succession.note_report(from_ns(static_cast<std::int64_t>(report.crossed_ns)));
  }
  if (visit_former_ != nullptr && *visit_former_) (*visit_former_)(report);
}

void GuardPrograms::Loaded::drain(const Visit& visit, const Visit& visit_former) {
  // Read before the ring: the next call handles reports that are dropped from here on.
  const std::uint64_t dropped = __atomic_load_n(&skeleton->bss->counts.dropped, __ATOMIC_ACQUIRE);
  std::array<std::uint64_t, ABI_GUARD_SLOTS> firings{};
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) firings[slot] = mapped_->firings(slot);
  visit_ = &visit;
  visit_former_ = &visit_former;
  ring_buffer__consume(ring.get());
  visit_ = visit_former_ = nullptr;
  if (dropped == dropped_) return;
  // The report of a crossing may be lost; its slot must not stay spent.
  dropped_ = dropped;
  ++reports_read_;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    slots_[slot].firings_read = std::max(slots_[slot].firings_read, firings[slot]);
  }
}

Result<abi_guard_victim> GuardPrograms::Loaded::identify(pid_t pid, CgroupId workload) {
  skeleton->bss->identify_within = workload.inode;
  skeleton->bss->identified = {};
  bpf_iter_link_info one{};
  one.task.tid = static_cast<__u32>(pid);
  TRY(run_iterator(skeleton->progs.guard_identify, one));
  const abi_guard_victim found = skeleton->bss->identified;
  if (found.tgid != pid) return Error{ESRCH, "identify process " + std::to_string(pid)};
  return found;
}

}  // namespace forestall::kernel
