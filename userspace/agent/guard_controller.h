// SPDX-License-Identifier: Apache-2.0
// Supplies the guard in the kernel with lists of victims, and requests the completion of its kills.
//
// A list contains what the policy would decide. It is at most a second older than the last
// evaluation and expires after three seconds. So the guard of a stopped agent acts for that time;
// that of an agent that ended does so if a store keeps it (kernel/guard_store.h). The next agent
// takes over: its first list ends the former guard, whose kills it completes and records. In a dry
// run and while enough memory is pending release there is no list. Outside of the warning zone
// there is the standing list (standing_guard.h).
//
// A list is made from the samples of the pre-ranked list (victim_cache.h), each time that one is
// made. So the guard's victim is the loop's, growth included, and no workload is sampled twice. The
// workloads are sampled for the guard alone near a workload's own limit, which has no
// pre-ranked list, and after kills, which its samples do not show yet.
//
// A thread ranks and approves (regular_guard.h). Until it is done the lists before stay in force,
// as long as they have not expired. Lists that were begun before a report or a kill are dropped:
// they could kill a second workload for memory that the first one is releasing.
//
// After a kill by the guard the ladder takes over: it kills processes that were not listed or were
// forked since, and calls process_mrelease. Record, outcome and credit are those of any other kill.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actuators/never_kill.h"
#include "agent/growth_watch.h"
#include "agent/guard_list_thread.h"
#include "agent/guard_parts.h"
#include "agent/kill_request.h"
#include "agent/regular_guard.h"
#include "agent/standing_guard.h"
#include "agent/victim_cache.h"
#include "base/clock.h"
#include "base/result.h"
#include "kernel/guard.h"
#include "model/config.h"
#include "model/record.h"
#include "policy/guard_list.h"

namespace forestall::agent {

// The guard in the kernel as the loop uses it. Base: it is off.
// Thread rule: the loop's thread only.
class LoopGuard {
 public:
  LoopGuard() = default;
  LoopGuard(const LoopGuard&) = delete;
  LoopGuard& operator=(const LoopGuard&) = delete;
  virtual ~LoopGuard() = default;

  // An evaluation was acted on: what it kills is signalled. A kill by a former guard is recorded
  // with it. The record is unchanged at the end.
  virtual void decided(Record&) {}
  // After each evaluation that did not wait for another one's kill. Makes new lists when they are
  // due, or when kills began or ended; withdraws them when there is nothing to guard. Costs nothing
  // outside of the zone. `victim_cache` and `growth` are those of the evaluation. The record is
  // unchanged at the end.
  virtual void evaluated(const Config&, Record&, const VictimCache&, const GrowthWatch&) {}
  // The loop is about to kill for a threshold: the guard's list for a stopped loop is withdrawn.
  // False: it has fired, and its report is to be taken first.
  [[nodiscard]] virtual bool claim() { return true; }
  // A former guard has the turn, which only claim() ends, or the memory of its kill is awaited.
  [[nodiscard]] virtual bool waits() const { return false; }
  // The pre-ranked list is new: if there is a guard list, an evaluation is due at once.
  virtual void ranked() {}
  // The cgroups of the protected workloads: no process with a thread in one of them is approved.
  virtual void protect(const std::shared_ptr<const actuators::ProtectedGroups>&) {}
  // Another configuration: the lists are void.
  virtual void disarm() {}
  // The agent ends. The guard stays in force if a store keeps it.
  virtual void leave() {}
  // When evaluated() has to be called at the latest; nothing: no list needs it.
  [[nodiscard]] virtual std::optional<MonotonicTime> next_due() const { return std::nullopt; }
  // When prepare() is due; nothing: there is nothing to prepare.
  [[nodiscard]] virtual std::optional<MonotonicTime> preparation_due() const {
    return std::nullopt;
  }
  // A turn of the work for lists.
  virtual void prepare(const Config&, const GrowthWatch&) {}
  // Polls readable when take_lists() has something to do; -1: never.
  [[nodiscard]] virtual int lists_fd() const { return -1; }
  // Publishes the lists that a thread has made.
  virtual void take_lists() {}
  // Polls readable when there are reports; -1: never.
  [[nodiscard]] virtual int fd() const { return -1; }
  // Logs every report since the last call. Returns the kills, one for each workload; their usage is
  // that right before the first signal.
  [[nodiscard]] virtual std::vector<KillRequest> take_kills(const Config&) { return {}; }
};

class GuardController final : public LoopGuard {
 public:
  static constexpr Duration kRefresh = std::chrono::seconds(1);
  // While a kill of the former guard is not over.
  static constexpr Duration kTakeOverRetry = std::chrono::milliseconds(50);
  // The former guard's lists rule for so long at most: a list of this guard may be long in coming.
  static constexpr Duration kTakeOverMax = std::chrono::seconds(10);
  // Reports of the former guard are read for so long after its end.
  static constexpr Duration kFormerReports = std::chrono::seconds(5);
  // A thread visits each CPU to start its clock; so long after a new list the result is read.
  static constexpr Duration kClockStart = std::chrono::milliseconds(20);

  static Result<std::unique_ptr<GuardController>> create(const GuardParts& parts);

  void decided(Record& record) override;
  void evaluated(const Config& config, Record& record, const VictimCache& victim_cache,
                 const GrowthWatch& growth) override;
  [[nodiscard]] bool claim() override;
  [[nodiscard]] bool waits() const override {
    return parts_.guard.waits() || parts_.guard.awaits_release(parts_.clock.now());
  }
  void ranked() override;
  void protect(const std::shared_ptr<const actuators::ProtectedGroups>& groups) override;
  void disarm() override;
  void leave() override;
  [[nodiscard]] std::optional<MonotonicTime> next_due() const override;
  [[nodiscard]] std::optional<MonotonicTime> preparation_due() const override;
  void prepare(const Config& config, const GrowthWatch& growth) override;
  [[nodiscard]] int lists_fd() const override { return thread_->fd(); }
  void take_lists() override;
  [[nodiscard]] int fd() const override { return parts_.guard.fd(); }
  [[nodiscard]] std::vector<KillRequest> take_kills(const Config& config) override;

 private:
  using Listed = RegularListJob::Listed;

  GuardController(const GuardParts& parts, std::unique_ptr<GuardListThread> thread);
  [[nodiscard]] const std::shared_ptr<const Config>& shared(const Config& config);
  void make_lists(const Config& config, Record& record, const VictimCache& victim_cache,
                  const GrowthWatch& growth, MonotonicTime now);
  void check_hold(MonotonicTime now);
  void follow(bool ready, MonotonicTime now);
  void note_former_end(MonotonicTime now);
  [[nodiscard]] bool store_refused() const;
  void withdraw_if_refused();
  [[nodiscard]] bool take_over(MonotonicTime now);
  void refresh(const Config& config, Record& record, const VictimCache& victim_cache,
               const GrowthWatch& growth, MonotonicTime now);
  [[nodiscard]] VictimCache::SharedSamples samples_for(const Config& config,
                                                       const VictimCache& victim_cache,
                                                       MonotonicTime now,
                                                       const Observation& observation) const;
  void publish(RegularListJob& made);
  void drop_preparation();
  void report_stuck(bool stuck);
  [[nodiscard]] bool report_late(bool late);
  void arm(const std::vector<kernel::GuardList>& lists);
  void report_clock_problem();
  void report_armed(MonotonicTime now, bool waited);
  void report_listed(const Listed& listed);
  void report(const abi_guard_report& report, const policy::GuardOrder* order, bool former);
  void withdraw();
  // What a list was made of.
  struct ListSource {
    const policy::GuardOrder* order = nullptr;  // null: it is not known any more
    const Record* made_from = nullptr;          // with `order`
  };
  [[nodiscard]] ListSource source_of(const abi_guard_report& report) const;
  [[nodiscard]] std::optional<KillRequest> request_of(const abi_guard_report& report,
                                                      const ListSource& source) const;
  [[nodiscard]] std::vector<Candidate> candidates_of_former(const Config& config,
                                                            const policy::StandingSubject& subject,
                                                            CgroupId victim) const;
  [[nodiscard]] std::optional<KillRequest> former_request_of(const Config& config,
                                                             const abi_guard_report& report);

  const GuardParts parts_;
  std::unique_ptr<GuardListThread> thread_;
  std::shared_ptr<const actuators::NeverKill> never_kill_;
  std::shared_ptr<const Config> config_;  // a copy of the one in force; null: none was needed yet
  RegularGuard regular_;
  StandingGuard standing_;
  bool protects_ = true;    // the programs have the protected groups
  bool withdrawn_ = false;  // from its store
  bool follows_;            // a former guard is in force, or may have reports
  // The last evaluation while that is so, without workloads: for requests for its kills.
  std::optional<Record> evaluated_;
  std::optional<MonotonicTime> followed_from_;  // the first evaluation
  std::optional<MonotonicTime> former_ended_;
  std::optional<MonotonicTime> take_over_due_;
  std::optional<MonotonicTime> due_;
  std::vector<KillProgress> kills_;           // when the lists were begun
  bool again_ = false;                        // other lists are due once these are made
  bool reported_stuck_ = false;               // that a job of the thread is late
  bool reported_late_ = false;                // that lists expired before they were made
  std::optional<MonotonicTime> reported_at_;  // the last report of a crossing or a kill
  std::map<CgroupId, Listed> listed_;         // by subject
  std::vector<CgroupId> armed_;               // subjects whose list is still to be logged
  std::optional<MonotonicTime> report_due_;   // when report_armed() tries again
  std::size_t reported_unarmed_ = 0;          // lists that could not be armed, as logged last
  std::string reported_clock_problem_;        // as logged last
  std::map<CgroupId, std::int32_t> reported_first_;  // by subject: the first victim, as logged last
  Record made_from_;                                 // the evaluation that the lists were made from
  // The same of the lists before: one may have fired while these were made.
  std::map<CgroupId, Listed> former_;
  Record former_made_from_;
};

}  // namespace forestall::agent
