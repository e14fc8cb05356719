// SPDX-License-Identifier: Apache-2.0
// Follows systemd's ManagedOOM properties, by a source, and makes rulesets of them.
//
// What is unknown leaves the last rules in force:
// - of a unit whose properties cannot be read, until they can be, or it is not active any more;
// - of all units while the bus or systemd is away, for `kept`. A restart of either takes seconds,
//   and memory is often short just then. After that there are no rules until systemd was read
//   again: a rule may have been withdrawn, and no rule kills nothing.
// An agent that has not read systemd yet has no rules.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/shared_value.h"
#include "base/unique_fd.h"
#include "daemon/managed_oom_source.h"
#include "exports/log.h"
#include "model/ruleset.h"
#include "rulesets/managed_oom.h"

namespace forestall::daemon {

struct ManagedOomSourceState {
  rulesets::OomdConf conf;
  rulesets::ManagedOomRules rules;    // in force
  std::optional<MonotonicTime> read;  // when systemd was last read
  std::string problem;                // why systemd as it is now is not in force; empty: it is
};

struct ManagedOomTimes {
  // All units are read again, because systemd signals no change of these properties on D-Bus. By
  // varlink, it is how often an unbroken subscription counts as read.
  // Twice as long if reading all units takes more than a thousandth of it: systemd and the bus work
  // on each of these readings too.
  Duration all = std::chrono::seconds(30);
  // Between two readings, and so between two changes of the rules: each one discards the readings
  // of rulesets that are under way.
  Duration least = std::chrono::seconds(5);
  Duration reconnect = std::chrono::seconds(2);
  Duration kept = std::chrono::minutes(10);
};

// A thread of its own waits for the source. Thread rule: follow(), take(), in_force() and refused()
// from the loop's thread.
class ManagedOomWatch {
 public:
  // `log` and `clock` outlive it.
  static Result<std::unique_ptr<ManagedOomWatch>> start(exports::Log& log, const Clock& clock,
                                                        std::unique_ptr<ManagedOomSource> source,
                                                        ManagedOomTimes times = {});
  ManagedOomWatch(const ManagedOomWatch&) = delete;
  ManagedOomWatch& operator=(const ManagedOomWatch&) = delete;
  ~ManagedOomWatch();

  // systemd-oomd's settings; nothing: managedOOM is off. Then there are no rules from now on.
  void follow(const std::optional<rulesets::OomdConf>& conf);
  // Polls readable when rulesets wait for take().
  [[nodiscard]] int fd() const { return ready_.get(); }
  // Whether in_force() changed since the last call.
  [[nodiscard]] bool take();
  [[nodiscard]] std::vector<rulesets::Ruleset> in_force() const;
  // What was taken could not be used: it is offered again after the next reading.
  void refused();
  // Paths of the cgroups of the rules, sorted; null: there are none. Any thread.
  [[nodiscard]] std::shared_ptr<const std::vector<std::string>> monitored() const;
  // The source's name. Any thread.
  [[nodiscard]] std::string_view source() const { return source_->name(); }
  // Any thread. Nothing: managedOOM is off.
  [[nodiscard]] std::optional<ManagedOomSourceState> state() const;

 private:
  ManagedOomWatch(exports::Log& log, const Clock& clock, std::unique_ptr<ManagedOomSource> source,
                  ManagedOomTimes times, UniqueFd wake, UniqueFd ready)
      : log_(log),
        clock_(clock),
        source_(std::move(source)),
        times_(times),
        wake_(std::move(wake)),
        ready_(std::move(ready)) {}

  // All of these on the thread.
  void run();
  [[nodiscard]] Result<void> run_connected();
  void wait(MonotonicTime until) const;
  void note_read();
  void offer();
  [[nodiscard]] bool take_settings();
  void set_rules(const rulesets::OomdConf& conf, rulesets::ManagedOomRules rules);
  void note_problem(const std::string& problem);
  void forget_old_rules();
  [[nodiscard]] bool is_on() const;

  exports::Log& log_;
  const Clock& clock_;
  const std::unique_ptr<ManagedOomSource> source_;  // used by the thread only
  const ManagedOomTimes times_;
  const UniqueFd wake_;   // wakes the thread
  const UniqueFd ready_;  // wakes the loop
  std::atomic<bool> stopping_{false};
  std::optional<MonotonicTime> last_refresh_;
  std::optional<MonotonicTime> last_all_;
  Duration pause_{0};  // until all are read again

  mutable base::PriorityMutex mutex_;
  std::optional<ManagedOomSourceState> state_;
  std::vector<rulesets::Ruleset> in_force_;
  std::shared_ptr<const std::vector<std::string>> monitored_;  // of state_->rules
  bool changed_ = false;                                       // in_force_, since take()
  bool refused_ = false;                                       // in_force_, by the loop
  bool settings_changed_ = false;  // state_->conf, since the rules were made

  std::thread thread_;  // last: uses all of the above
};

// `configured`, and `managed` after them; null if there are none.
[[nodiscard]] SharedValue<std::vector<rulesets::Ruleset>> with_managed_rules(
    const SharedValue<std::vector<rulesets::Ruleset>>& configured,
    const std::vector<rulesets::Ruleset>& managed);

}  // namespace forestall::daemon
