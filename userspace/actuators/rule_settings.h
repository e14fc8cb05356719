// SPDX-License-Identifier: Apache-2.0
// Carries out what rulesets decide for cgroups (v2): memory.high and cgroup.freeze for a time, and
// memory.reclaim once.
//
// A thread of ordinary priority writes: a memory.high below usage and memory.reclaim reclaim in the
// writing thread. So a throttle goes down in steps (rule_settings_writer.h) and a reclaim is
// written in pieces. Between two of them the thread serves what changed meanwhile. It undoes what
// is no longer wanted, and by its own timer what is over, so that nothing depends on a further
// evaluation. The destructor undoes all of it, and after a SIGKILL the next start does
// (kernel/memory_high.h, kernel/cgroup_freeze.h).
#pragma once

#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

#include "actuators/reclaim_queue.h"
#include "actuators/rule_settings_writer.h"
#include "base/clock.h"
#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "model/rule_setting.h"

namespace forestall::actuators {

// Base: this host has no such files.
// Thread rule: all calls come from one thread, the loop's. Only the destructor waits.
class RuleSettings {
 public:
  RuleSettings() = default;
  RuleSettings(const RuleSettings&) = delete;
  RuleSettings& operator=(const RuleSettings&) = delete;
  virtual ~RuleSettings() = default;

  // Before the first apply() or reclaim(): starts the thread, once. ENOTSUP: cgroup v1.
  [[nodiscard]] virtual Result<void> start();
  // From now on exactly these are set. Takes effect on the thread.
  virtual void apply(std::vector<RuleSetting> /*wanted*/) {}
  // Replaces reclaims of the same rulesets that have not begun: a ruleset that still fires requests
  // them again (reclaim_queue.h). The one under way continues, and another one of its cgroup is
  // dropped. A proactive one that has not begun in time is dropped, and each that is dropped has a
  // result.
  virtual void reclaim(std::vector<RuleReclaim> /*wanted*/) {}
  // Ends the reclaim under way after its present piece, and drops the others.
  virtual void cancel_reclaims() {}
  // Since the last call: failures, undos that failed before, and reclaims that are over or dropped.
  [[nodiscard]] virtual std::vector<RuleSettingResult> take_results() { return {}; }
  // Settings whose undo failed; it is tried again with growing pauses.
  [[nodiscard]] virtual std::size_t not_undone() const { return 0; }
};

class RuleSettingsThread final : public RuleSettings {
 public:
  using Records = RuleSettingsWriter::Records;

  // REQUIRES: cgroup v2. `tree` and the records outlive the object.
  RuleSettingsThread(const kernel::CgroupTree& tree, Records records)
      : tree_(tree), records_(records) {}
  ~RuleSettingsThread() override;

  [[nodiscard]] Result<void> start() override;
  void apply(std::vector<RuleSetting> wanted) override;
  void reclaim(std::vector<RuleReclaim> wanted) override;
  void cancel_reclaims() override;
  [[nodiscard]] std::vector<RuleSettingResult> take_results() override;
  [[nodiscard]] std::size_t not_undone() const override;

 private:
  struct Work {
    std::vector<RuleSetting> settings;
    bool changed = false;  // the settings
    bool cancels = false;  // the reclaim under way
    bool stop = false;
  };
  // One that is being written.
  struct Reclaiming {
    RuleReclaim left;
    RuleSettingResult result;
  };

  void serve();
  // False: there is none to write now.
  bool reclaim_piece(const Clock& clock, MonotonicTime undo);
  bool has_piece(MonotonicTime now, bool may_be_proactive);
  void end_reclaim();
  void wake() const;
  [[nodiscard]] Work take_work();
  void add_result(RuleSettingResult result);

  const kernel::CgroupTree& tree_;
  const Records records_;
  UniqueFd changed_;  // eventfd: work_ changed; closed: there is no thread yet
  mutable base::PriorityMutex mutex_;
  // Guarded by the mutex, which is not held during a write.
  Work work_;
  ReclaimQueue reclaims_;  // not begun
  std::vector<RuleSettingResult> results_;
  std::size_t not_undone_ = 0;

  // Used by the thread only.
  std::optional<Reclaiming> reclaiming_;
  // A piece may take this long: a second with slow swap, or what the last ones took.
  Duration piece_time_ = std::chrono::seconds(1);

  // Used by the loop only.
  std::vector<RuleSetting> last_;
  bool may_reclaim_ = false;  // reclaims may be under way or wait
  std::thread thread_;        // last: serve() uses all members above
};

}  // namespace forestall::actuators
