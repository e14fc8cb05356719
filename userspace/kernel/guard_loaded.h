// SPDX-License-Identifier: Apache-2.0
// What a GuardPrograms consists of: the loaded object, its lists, clocks and reports.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>
#include "kernel/guard_object.h"

#include "base/job_thread.h"
#include "kernel/bpf_run.h"
#include "kernel/guard.h"
#include "kernel/guard_hold.h"
#include "kernel/guard_succession.h"
#include "kernel/mapped_guard_lists.h"

namespace forestall::kernel {

// Thread rule: that of GuardPrograms.
class GuardPrograms::Loaded {
 public:
  Loaded(GuardSkeleton object, GuardSuccession follows, bool charge_hook)
      : skeleton(std::move(object)),
        succession(std::move(follows)),
        hold(*skeleton),
        with_charges_(charge_hook) {}

  Result<void> start();
  Result<std::vector<std::size_t>> arm(std::span<const GuardList> lists);
  Result<void> protect(std::span<const GuardProtected> groups);
  void disarm();
  Result<void> stand(const StandingGuardList& list);
  void withdraw_standing();
  [[nodiscard]] bool standing_has_fired() const;
  void drain(const Visit& visit, const Visit& visit_former);
  [[nodiscard]] bool take_over(MonotonicTime now);
  Result<abi_guard_victim> identify(pid_t pid, CgroupId workload);
  Result<std::uint64_t> find_memcg(int fd, CgroupId cgroup) const;
  Result<GuardMemcg> memcg_of(int fd, CgroupId cgroup) const;
  [[nodiscard]] std::optional<std::size_t> slot_of(CgroupId subject) const;
  [[nodiscard]] std::uint32_t running_clocks() const;
  [[nodiscard]] bool armed() const;
  [[nodiscard]] bool in_force(MonotonicTime now) const;
  [[nodiscard]] std::uint64_t reports_read() const { return reports_read_; }
  [[nodiscard]] const std::optional<Error>& clock_problem() const { return clock_problem_; }

  GuardSkeleton skeleton;
  GuardSuccession succession;
  GuardHold hold;
  std::string evidence;
  bool reaches_others = false;
  BpfRing ring;

 private:
  struct Slot {
    std::optional<CgroupId> subject;
    std::uint64_t generation = 0;  // of the last list
    std::uint64_t firings_read = 0;
    MonotonicTime expires = {};  // of the last list
  };

  Result<void> attach();
  Result<void> keep();
  void await_former_release(MonotonicTime now) {
    if (const auto due = succession.release_due(now)) hold.await_release(*due);
  }
  Result<void> open_rings();
  [[nodiscard]] std::optional<std::size_t> take_slot(const GuardList& list);
  Result<void> resolve(int fd, CgroupId cgroup, bool with_usage) const;
  Result<Bytes> place(std::size_t slot, CgroupId cgroup, std::uint64_t memcg) const;
  Result<void> place_standing(const StandingGuardList& list) const;
  void publish(const GuardList& list, std::size_t slot);
  void release(std::size_t slot);
  void note_expiry();
  void note(const abi_guard_report& report);
  void note_former(const abi_guard_report& report);
  void count(const abi_guard_report& report);
  [[nodiscard]] bool runs(std::size_t cpu) const;
  void start_clocks();
  void visit_cpus(bool every_clock);
  void start_stopped_clocks();

  bool with_charges_;
  std::vector<std::uint32_t> cpus_;
  std::array<Slot, ABI_GUARD_SLOTS> slots_;
  std::map<std::uint64_t, __u32> protected_;  // as in the BPF map
  std::optional<MappedLists> mapped_;
  std::uint64_t dropped_ = 0;  // dropped reports that drain() has handled
  std::uint64_t reports_read_ = 0;
  const Visit* visit_ = nullptr;
  const Visit* visit_former_ = nullptr;
  // For the starter: the running clocks too, which may be at the long pace of the standing list.
  std::atomic<bool> restart_all_{false};
  MonotonicTime regular_until_;               // when the last regular list expires
  MonotonicTime standing_until_;              // the same of the standing list
  std::optional<Error> start_problem_;        // the starter's while it runs
  std::optional<Error> clock_problem_;        // of the starter's last run that is over
  std::unique_ptr<base::JobThread> starter_;  // last: it uses the above
};

}  // namespace forestall::kernel
