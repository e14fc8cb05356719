// SPDX-License-Identifier: Apache-2.0
// Keeps the guard in the kernel supplied with lists of who may be shot, and completes what it shot.
//
// A list says what the policy would decide, is at most a second older than the last look, and
// expires after three: a process that was stopped right after making one leaves a guard behind that
// acts on it for so long, and one that ended leaves none. Outside of the zone near a threshold, in
// a dry run, and while enough memory is on its way, there is no list.
//
// It is made of what readiness.h sampled for its own list, and again whenever that one is made: so
// who is shot is who would be chosen, growth included, and nobody is sampled twice. Only near a
// limit of its own, for which nothing is made ready, and after kills, which its samples do not show
// yet, the workloads are sampled for the guard alone.
//
// After a shot the ladder takes over, as if the kill had been ours: what the guard did not list or
// what was forked since is killed, process_mrelease takes the memory back sooner than the victim
// would give it, and record, outcome and credit come out as for any other kill.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actuators/ladder.h"
#include "actuators/untouchable.h"
#include "agent/growth_watch.h"
#include "agent/readiness.h"
#include "base/clock.h"
#include "exports/log.h"
#include "kernel/cgroup_tree.h"
#include "kernel/guard.h"
#include "model/config.h"
#include "model/record.h"
#include "policy/guard_list.h"
#include "sources/observer.h"

namespace forestall::agent {

// What it works with; all owned by the caller, who outlives it.
struct GuardParts {
  kernel::Guard* guard = nullptr;
  const kernel::CgroupTree* tree = nullptr;
  sources::Observer* observer = nullptr;
  const Clock* clock = nullptr;
  exports::Log* log = nullptr;
};

// Thread rule: the loop's thread only.
class GuardKeeper {
 public:
  static constexpr Duration kRefresh = std::chrono::seconds(1);
  static constexpr Duration kExpiry = std::chrono::seconds(3);
  // A thread visits each CPU to start its clock; so long after a list it is asked whether it has.
  static constexpr Duration kClockStart = std::chrono::milliseconds(20);

  explicit GuardKeeper(GuardParts parts)
      : parts_(parts), untouchables_(actuators::Untouchables::of_this_process()) {}

  // After each look. Makes new lists when they are due, or when kills began or ended; withdraws
  // them when there is nothing to guard. Costs nothing outside of the zone. `readiness` and
  // `growth` are those the look was decided with.
  void looked(const Config& config, const Record& record, const Readiness& readiness,
              const GrowthWatch& growth);
  // Readiness has ranked anew: if there is anything to guard, a look is due at once.
  void ranked();
  // Another configuration: what is listed is void.
  void disarm();
  // When looked() has to be called at the latest; nothing: no list is in force.
  [[nodiscard]] std::optional<MonotonicTime> next_look() const {
    return tell_due_ ? std::min(tell_due_, due_) : due_;
  }

  [[nodiscard]] int fd() const { return parts_.guard->fd(); }
  // One workload that was shot, as of a decision to kill it, with the look the list was made from.
  struct Shot {
    Record record;
    actuators::Signalled signalled;  // its usage is that right before the shot
  };
  // What happened since the last call, told to the log: each workload that was shot. REQUIRES: the
  // ladder completes it.
  [[nodiscard]] std::vector<Shot> take_shots();

 private:
  // What one subject's list was made of.
  struct Kept {
    policy::GuardOrder order;
    std::vector<abi_guard_victim> victims;
  };

  void refresh(const Config& config, const Record& record, const Readiness& readiness,
               const GrowthWatch& growth, MonotonicTime now);
  [[nodiscard]] bool take_samples(const Config& config, const Readiness& readiness,
                                  MonotonicTime now, Observation& observation) const;
  [[nodiscard]] std::vector<abi_guard_victim> approve(const policy::GuardOrder& order);
  void add_processes(const Workload& workload, const policy::GuardVictim& victim,
                     std::vector<abi_guard_victim>& out);
  [[nodiscard]] static std::optional<kernel::GuardList> list_of(const Kept& kept,
                                                                const kernel::CgroupDir* subject,
                                                                std::optional<Bytes> line,
                                                                MonotonicTime now);
  void arm(const std::vector<kernel::GuardList>& lists);
  void tell_armed(MonotonicTime now, bool waited);
  void tell_listed(const Kept& kept);
  void tell(const abi_guard_report& report);
  [[nodiscard]] std::optional<Record> record_of(const abi_guard_report& report) const;

  const GuardParts parts_;
  const actuators::Untouchables untouchables_;
  std::optional<MonotonicTime> due_;
  std::vector<KillProgress> kills_;              // when the lists were made
  std::map<CgroupId, Kept> kept_;                // by subject
  std::vector<CgroupId> armed_;                  // subjects whose list is still to be told of
  std::optional<MonotonicTime> tell_due_;        // when tell_armed() tries again
  std::size_t told_unarmed_ = 0;                 // lists that could not be armed, as it was told
  std::map<CgroupId, std::int32_t> told_first_;  // by subject: the first victim, as it was told
  std::map<CgroupId, kernel::CgroupDir> subjects_;
  Record made_from_;
};

}  // namespace forestall::agent
