// SPDX-License-Identifier: Apache-2.0
// A guard that outlives its agent, and the one that follows it (bpf/abi/guard.h, the turn).
//
// An agent keeps its guard's objects in a GuardStore. The next agent finds them there, loads its
// own guard with the same turn, and takes the turn when its own list is in force. Only then it
// drops the objects, which ends the former guard. No crossing lies between the two, and none fires
// both.
#pragma once

#include <bpf/libbpf.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/job_thread.h"
#include "base/result.h"
#include "bpf/abi/guard.h"
#include "kernel/guard_store.h"
#include "kernel/mapped_array.h"

namespace forestall::kernel {

// Thread rule: one thread at a time, except crossings(). It does not move from begin() on.
class GuardSuccession {
 public:
  // A kill of the former guard that is not over delays take_over() for so long at most; then the
  // exchange ends it. The loop must not wait longer for a victim that does not run.
  static constexpr Duration kBusyMax = std::chrono::milliseconds(500);
  // For the memory of a victim of a former guard, without process_mrelease: 256 MiB took 838 ms on
  // contended CPUs.
  static constexpr Duration kRelease = std::chrono::seconds(1);

  // Reads what former guards have left. `store` null: there is none, and this guard ends with its
  // process. A store that refuses is not used; problem() has the reason.
  static GuardSuccession find(GuardStore* store);

  // Before this guard is loaded: its number, and the turn's map; -1: a new one.
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] int turn() const;
  [[nodiscard]] const std::string& problem() const { return problem_; }

  struct Object {
    std::string name;  // as in GuardObjectName::object
    int fd = -1;
  };
  // Takes the turn at once if no former guard has it. Keeps the objects. REQUIRES: they are those
  // of this guard, loaded with number() and `turn`.
  [[nodiscard]] Result<void> begin(int turn, std::span<const Object> objects);

  // Rings of former guards with reports that this build can read.
  [[nodiscard]] std::vector<int> rings() const;
  [[nodiscard]] bool has_unread_reports() const;
  // Whether the store keeps all of this guard.
  [[nodiscard]] bool keeps() const { return kept_; }
  // The store turned out not to keep all of this guard: a thread drops it there, and it ends with
  // its process. To be called until it returns true; false: that, or the end of the former guard,
  // is under way. An error names what the store may still have.
  [[nodiscard]] Result<bool> withdraw();
  // Whether a former guard has the turn.
  [[nodiscard]] bool waits() const { return !taken_; }
  // Takes the turn from the former guard; a thread ends it, because the kernel may wait for a grace
  // period while it closes the programs, and the service manager may be slow. False: it has fired
  // and its reports are to be read first, or its kill is not over. `now` bounds the wait for that.
  // `hold_back` is called right before the exchange. A crossing that it does not see fails the
  // exchange.
  [[nodiscard]] bool take_over(MonotonicTime now, const std::function<void()>& hold_back = {});
  // A report of a former guard was read, about a counted crossing at that time.
  void note_report(MonotonicTime crossed) { reported_ = std::max(reported_, crossed); }
  // Until when the memory of a former guard's kill is awaited that this agent has no report of: the
  // reports have another layout, were lost, or the former agent has read them. Nullopt: there is no
  // such kill, or its memory was back before `now`. REQUIRES: this guard has not fired.
  [[nodiscard]] std::optional<MonotonicTime> release_due(MonotonicTime now) const;
  // Whether the former guard, if there was one, has ended. An error names what remains of it.
  [[nodiscard]] Result<bool> former_ended();
  // Of this guard's last list; nullopt: there is none.
  void set_expiry(std::optional<MonotonicTime> expires);
  // Crossings of this guard and of former ones. Any thread.
  [[nodiscard]] std::uint32_t crossings() const;

 private:
  GuardSuccession() = default;
  void drop_former();
  void end_former();
  void drop_stored();
  void drop(const std::string& name);
  void fail(const Error& problem);
  void share_turn();
  void note_agent();
  void note_holder();

  [[nodiscard]] Result<void> keep_all(int turn, std::span<const Object> objects);

  GuardStore* store_ = nullptr;  // null: none, or refused
  bool kept_ = false;
  std::vector<std::string> stored_;  // names of this guard's objects in the store; the turn is last
  std::string problem_;
  std::vector<KeptObject> former_;  // without the turn
  std::optional<KeptObject> former_turn_;
  std::uint32_t number_ = 1;
  std::optional<MappedArray<abi_guard_turn>> turn_;
  bool taken_ = false;
  std::optional<MonotonicTime> busy_since_;
  MonotonicTime busy_seen_;  // the last time that a kill of the former guard was not over
  MonotonicTime reported_;   // the last crossing with a report that was read
  // The last kill of guards that were dropped. Also when the former turn was found to have another
  // layout: its guard may have fired at any time.
  std::optional<MonotonicTime> lost_kill_;
  std::optional<MonotonicTime> expires_;
  std::string end_problem_;                // the thread's while it runs
  std::string withdrawal_problem_;         // the same
  std::unique_ptr<base::JobThread> ends_;  // from here on: they use the above
  std::unique_ptr<base::JobThread> withdraws_;
};

// What former guards have left, for people: one line for each guard.
[[nodiscard]] Result<std::vector<std::string>> describe_kept_guards(GuardStore& store,
                                                                    MonotonicTime now);

}  // namespace forestall::kernel
