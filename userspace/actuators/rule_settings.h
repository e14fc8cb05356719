// SPDX-License-Identifier: Apache-2.0
// Carries out what rulesets decide for cgroups (v2): memory.high and cgroup.freeze for a time, and
// memory.reclaim once.
//
// A thread of ordinary priority writes: a memory.high below usage and memory.reclaim reclaim in the
// writing thread. Settings come first and are undone first; a reclaim is written in pieces, and
// settings that changed meanwhile are applied between two pieces. What is no longer wanted is
// undone, by the destructor all of it, and after a SIGKILL by the next start (kernel/memory_high.h,
// kernel/cgroup_freeze.h).
#pragma once

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "kernel/setting_records.h"
#include "model/rule_setting.h"

namespace forestall::actuators {

// What came of a setting or a reclaim.
struct RuleSettingResult {
  std::string path;
  std::string what;  // "memory.high", "cgroup.freeze" or "memory.reclaim"
  Bytes wanted;      // of a reclaim
  Bytes reclaimed;   // of a reclaim: what the kernel confirmed, at most one piece less than freed
  std::optional<Error> failure;
};

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
  // Replaces reclaims that have not begun: a ruleset that still fires requests them again. The one
  // under way continues, and another one of its cgroup is dropped.
  virtual void reclaim(std::vector<RuleReclaim> /*wanted*/) {}
  // Ends the reclaim under way after its present piece, and drops the others.
  virtual void cancel_reclaims() {}
  // Since the last call: failures, and reclaims that are over.
  [[nodiscard]] virtual std::vector<RuleSettingResult> take_results() { return {}; }
};

class RuleSettingsThread final : public RuleSettings {
 public:
  // Of which places the records of settings are kept.
  struct Records {
    const kernel::SettingRecords& high;
    const kernel::SettingRecords& frozen;
  };

  // REQUIRES: cgroup v2. `tree` and the records outlive the object.
  RuleSettingsThread(const kernel::CgroupTree& tree, Records records)
      : tree_(tree), records_(records) {}
  ~RuleSettingsThread() override;

  [[nodiscard]] Result<void> start() override;
  void apply(std::vector<RuleSetting> wanted) override;
  void reclaim(std::vector<RuleReclaim> wanted) override;
  void cancel_reclaims() override;
  [[nodiscard]] std::vector<RuleSettingResult> take_results() override;

 private:
  struct Work {
    std::vector<RuleSetting> settings;
    std::vector<RuleReclaim> reclaims;
    bool cancels = false;  // the reclaim under way
    bool stop = false;
  };
  class Writer;

  void serve();
  // False: the thread has to end.
  [[nodiscard]] bool reclaim_first(Writer& writer, std::vector<RuleReclaim>& reclaims);
  void wake() const;
  [[nodiscard]] Work take_work();
  void add_result(RuleSettingResult result);

  const kernel::CgroupTree& tree_;
  const Records records_;
  UniqueFd changed_;  // eventfd: work_ changed; closed: there is no thread yet
  base::PriorityMutex mutex_;
  // Guarded by the mutex, which is held only to move them.
  Work work_;
  std::vector<RuleSettingResult> results_;

  // Used by the loop only.
  std::vector<RuleSetting> last_;
  bool may_reclaim_ = false;  // reclaims may be under way or wait
  std::thread thread_;        // last: serve() uses all members above
};

}  // namespace forestall::actuators
