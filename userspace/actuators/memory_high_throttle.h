// SPDX-License-Identifier: Apache-2.0
// Slows down cgroups that near their own limit with memory.high (v2), which is set below
// memory.max, where the kernel would kill. Above memory.high each charge first reclaims and then
// sleeps, longer with a larger excess (mm/memcontrol.c mem_cgroup_handle_over_high).
//
// It is set at the crossing, not ahead of it as in sources/high_tripwire.h. Usage may already be
// above the value, and then the kernel reclaims in the writing thread before the write returns.
// A separate thread of ordinary priority therefore writes it, in steps
// (actuators/rule_settings_writer.h): between two of them it serves the other cgroups. The previous
// value is restored when a cgroup is no longer listed, by the destructor, and after a SIGKILL by
// the next start (kernel/memory_high.h).
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "actuators/rule_settings_writer.h"
#include "base/bytes.h"
#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "kernel/setting_records.h"
#include "model/rule_setting.h"

namespace forestall::actuators {

struct ThrottledCgroup {
  CgroupId cgroup;
  std::string path;
  Bytes high;

  friend bool operator==(const ThrottledCgroup&, const ThrottledCgroup&) = default;
};

// Base: there is no memory.high, or it must not be used. Such workloads are warned about instead.
// Thread rule: all calls come from one thread, the loop's. Only the destructor waits.
class LoopThrottle {
 public:
  LoopThrottle() = default;
  LoopThrottle(const LoopThrottle&) = delete;
  LoopThrottle& operator=(const LoopThrottle&) = delete;
  virtual ~LoopThrottle() = default;

  [[nodiscard]] virtual bool works() const { return false; }
  // Throttles exactly these cgroups from now on.
  virtual void apply(std::vector<ThrottledCgroup>) {}
  // Failures to set or restore a value since the last call.
  [[nodiscard]] virtual std::vector<std::string> take_failures() { return {}; }
};

class MemoryHighThrottle final : public LoopThrottle {
 public:
  // ENOTSUP without memory.high (v1). `tree` and `records` must outlive the object.
  static Result<std::unique_ptr<MemoryHighThrottle>> create(const kernel::CgroupTree& tree,
                                                            const kernel::SettingRecords& records);
  // Restores every cgroup.
  ~MemoryHighThrottle() override;

  [[nodiscard]] bool works() const override { return true; }
  // Takes effect on the thread.
  void apply(std::vector<ThrottledCgroup> wanted) override;
  [[nodiscard]] std::vector<std::string> take_failures() override;

 private:
  MemoryHighThrottle(const kernel::CgroupTree& tree, const kernel::SettingRecords& records,
                     UniqueFd reported);
  void serve();
  [[nodiscard]] std::vector<RuleSetting> settings();
  [[nodiscard]] bool has_to_stop();
  void add_failure(const RuleSettingResult& result);

  const kernel::CgroupTree& tree_;
  const kernel::SettingRecords& records_;
  const UniqueFd reported_;  // eventfd: wanted_ or stop_ changed
  base::PriorityMutex mutex_;
  // Guarded by the mutex, which is held only to move them.
  std::vector<ThrottledCgroup> wanted_;
  std::vector<std::string> failures_;
  bool stop_ = false;

  std::vector<ThrottledCgroup> last_;  // used by the loop only
  std::thread thread_;                 // last: serve() uses all members above
};

}  // namespace forestall::actuators
