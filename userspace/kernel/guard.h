// SPDX-License-Identifier: Apache-2.0
// The guard's BPF object: loads it, publishes lists of approved victims and reads its reports.
//
// The programs end with this process, unless a GuardStore keeps them. While the process is stopped,
// and after it in a store, the expiry of each list disarms them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "bpf/abi/guard.h"
#include "kernel/guard_store.h"
#include "kernel/kernel_types.h"
#include "model/bpf_counter.h"
#include "model/ids.h"

namespace forestall::kernel {

// The list of one subject.
struct GuardList {
  CgroupId subject;         // inode 0: the node
  std::uint64_t memcg = 0;  // its GuardPrograms::find_memcg(); 0 for the node
  // The list fires if the working set is at or above this line: usage minus the subtree's inactive
  // file pages at that moment; for the node abi_node_working_set().
  Bytes line;
  Bytes inactive_file;  // the subject's now; used if the subtree is too large to add up
  MonotonicTime expires;
  // GuardPrograms::reports_read() before its workloads were sampled. If it has changed when the
  // list is armed, the list may count a victim of that time and is not published. Nullopt: the list
  // was made since the last drain().
  std::optional<std::uint64_t> reports_read = std::nullopt;
  // Groups in order. Only the first ABI_GUARD_VICTIMS are used.
  std::vector<abi_guard_victim> victims;
};

// The list for a time without any other (bpf/abi/guard.h, standing list).
struct StandingGuardList {
  CgroupId subject;         // as in GuardList
  std::uint64_t memcg = 0;  // as in GuardList
  // It fires when as much is used. A cgroup: its working set. The node: what is taken
  // (GuardUsage::taken).
  Bytes line;
  Bytes usage;          // the same, when it was made
  Bytes inactive_file;  // of the cgroup then
  Bytes limit;          // of the cgroup; with any other the list does not fire
  MonotonicTime expires;
  bool by_growth = false;  // growth since the list was made ranks before size
  // In the order of eviction when it was made, at most ABI_STANDING_WORKLOADS. The processes of a
  // workload are `count` from `first` in `processes`, at most ABI_STANDING_PROCESSES.
  std::vector<abi_standing_workload> workloads;
  std::vector<abi_guard_victim> processes;
};

// A cgroup whose threads keep their process from being killed.
struct GuardProtected {
  CgroupId cgroup;
  bool with_descendants = true;
};

struct GuardUsage {
  Bytes usage;
  Bytes inactive_file;
  bool exact = false;  // inactive_file was added up in the kernel
  // The node only: MemAvailable, and what the programs compare with a line on it. Nullopt: they
  // cannot count it on this kernel.
  std::optional<Bytes> available;
  std::optional<Bytes> taken;
};

// A memory cgroup for abi_standing_workload.
struct GuardMemcg {
  std::uint64_t address = 0;
  Bytes held;  // its usage without page cache, now
};

struct GuardOptions {
  // Whether to try fexit/page_counter_try_charge as one more hook that sends signals.
  bool charge_hook = true;
  // Keeps this guard after its process, and has what former ones left. Null: there is none. The
  // caller owns it and outlives the guard.
  GuardStore* store = nullptr;
};

// Thread rule: one thread at a time, except for calls of any thread. A second thread may prepare
// lists meanwhile by find_memcg(), memcg_of() and identify(), which are for one thread at a time,
// too: they wait for locks of cgroups that any tenant takes. No other call waits: a separate thread
// starts the clocks, because it must run on every CPU once.
class GuardPrograms {
 public:
  // ENOSYS: this kernel has no BTF. EPERM: refused, or not in the host's pid namespace, whose pids
  // the programs use.
  [[nodiscard]] static Result<std::unique_ptr<GuardPrograms>> load(
      const GuardOptions& options = {}, const KernelTypes& types = KernelTypes());
  ~GuardPrograms();

  // Whether it can signal a process that is not the current task. Otherwise it waits until the
  // victim runs.
  [[nodiscard]] bool reaches_others() const;
  // The parts in use on this kernel, for people.
  [[nodiscard]] const std::string& evidence() const;

  // The process as a victim. ESRCH unless it leads its thread group, is neither pid 1 nor a kernel
  // thread nor this process, and its memory cgroup is `workload` or below. The caller holds a pidfd
  // of the process and checks afterwards that it still exists.
  [[nodiscard]] Result<abi_guard_victim> identify(pid_t pid, CgroupId workload);
  // The address of the memory cgroup of an open directory. ENOENT: it has none of its own.
  [[nodiscard]] Result<std::uint64_t> find_memcg(int fd, CgroupId cgroup);
  // With its usage, which walks its subtree.
  [[nodiscard]] Result<GuardMemcg> memcg_of(int fd, CgroupId cgroup);

  // Replaces the protected cgroups. After a failure some of them may be missing.
  [[nodiscard]] Result<void> protect(std::span<const GuardProtected> groups);

  // Publishes these lists, each atomically, and disarms every other subject. A list without victims
  // disarms its subject. A subject that has fired since the last drain() keeps its spent list; the
  // first call after the next drain() arms it again. Returns the indices of the lists that could
  // not be armed: beyond ABI_GUARD_STANDING, or the cgroup was removed.
  [[nodiscard]] Result<std::vector<std::size_t>> arm(std::span<const GuardList> lists);
  // Withdraws the standing list, too.
  void disarm();
  // Publishes the standing list, atomically. It does nothing for 10 s after a list of arm() has
  // fired. ENOENT: the subject is gone. EAGAIN: it has another limit than the list. EBUSY: the
  // standing list has fired since the last drain().
  [[nodiscard]] Result<void> stand(const StandingGuardList& list);
  void withdraw_standing();
  // The standing list does not fire before that time, while a kill frees memory. Any thread.
  void postpone_standing(MonotonicTime until);
  // Nor before that one: the caller decides itself until then. A later call may bring it forward,
  // also to the past. Any thread.
  void decide_until(MonotonicTime until);
  // Ends both of these waits. For tests.
  void end_waits();
  // Whether the standing list has fired since the last drain(), also if it was withdrawn since.
  [[nodiscard]] bool standing_has_fired() const;
  // Whether any list is published, expired or not.
  [[nodiscard]] bool armed() const;
  // Whether any list is published that has not expired.
  [[nodiscard]] bool in_force(MonotonicTime now) const;

  // Whether a store keeps it after its process.
  [[nodiscard]] bool outlives_process() const;
  // Drops it from the store, which keeps a part only. To be called until it returns true. An error
  // names what the store may still have.
  [[nodiscard]] Result<bool> withdraw_from_store();
  // Why it does not although there is a store, or what could not be kept or removed; empty: none.
  [[nodiscard]] const std::string& store_problem() const;
  // No list fires before (guard_hold.h): another guard is in force that this one cannot end, or
  // awaits_release().
  [[nodiscard]] std::optional<MonotonicTime> held_until() const;
  // Why, for people; empty: it was not held back.
  [[nodiscard]] const std::string& hold_reason() const;
  // When check_hold() is due; nullopt: it is not held back.
  [[nodiscard]] std::optional<MonotonicTime> hold_check_due() const;
  // Ends the hold if the other guard is gone. arm() and stand() do this, too.
  void check_hold(MonotonicTime now);
  // Whether a former guard may have killed a workload without a report that this agent has, and its
  // memory may not be back. A further kill has to wait.
  [[nodiscard]] bool awaits_release(MonotonicTime now) const;
  // Whether a former guard is still in force. Until take_over() no list of this guard fires.
  [[nodiscard]] bool waits() const;
  // Ends the former guard; the lists in force fire from then on. False: it has fired, and its
  // reports are to be drained first, or its kill is not over.
  [[nodiscard]] bool take_over(MonotonicTime now);
  // Whether the former guard, if there was one, has ended: a thread does that after take_over(). An
  // error names what remains of it.
  [[nodiscard]] Result<bool> former_ended();

  using Visit = std::function<void(const abi_guard_report&)>;
  // Polls readable if there are reports to drain, of former guards, too. Those are lost without
  // `visit_former`.
  [[nodiscard]] int fd() const;
  void drain(const Visit& visit, const Visit& visit_former = {});
  // Changes when drain() reads a report of a crossing or a kill, of this guard or a former one, or
  // finds one lost.
  [[nodiscard]] std::uint64_t reports_read() const;

  // Runs one round of the programs in this thread: pending signals are sent. For tests.
  [[nodiscard]] Result<void> evaluate();
  // The usage that the programs read for a subject with a list; always possible for the node.
  [[nodiscard]] Result<GuardUsage> usage(CgroupId subject) const;
  // The programs' counters. Any thread.
  [[nodiscard]] abi_guard_counts counts() const;
  // Crossings that fired, those of former guards included. Any thread.
  [[nodiscard]] std::uint64_t crossings() const;
  // All of counts() and the failures of bpf/lib, by name. Any thread.
  [[nodiscard]] Result<std::vector<BpfCounter>> counters_by_name() const;
  // Number of CPUs with a running clock.
  [[nodiscard]] std::uint32_t clocks() const;
  // The first error of the last attempt to start the clocks, if that was over at the last arm().
  // CPUs that are offline or outside of the agent's cpuset are none.
  [[nodiscard]] const std::optional<Error>& clock_problem() const;

 private:
  class Loaded;
  explicit GuardPrograms(std::unique_ptr<Loaded> loaded);
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace forestall::kernel
