// SPDX-License-Identifier: Apache-2.0
// The agent's own memory QoS (`memoryQoS`): which memory.min, memory.low and memory.high its
// cgroups would have (policy/memory_qos_plan.h), next to what they have. With `enforce` it writes
// memory.min and memory.low (actuators/memory_reserve_writer.h), and memory.high
// (agent/memory_high_controller.h).
//
// A thread of its own opens, reads and writes the cgroups: a pod has some ten files, and kernfs has
// locks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actuators/memory_reserve_writer.h"
#include "agent/memory_high_controller.h"
#include "base/clock.h"
#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "exports/log.h"
#include "kernel/cgroup_tree.h"
#include "model/memory_qos.h"
#include "model/pod.h"
#include "policy/memory_qos_plan.h"

namespace forestall::agent {

// What the values are computed from.
struct MemoryQosFacts {
  MemoryQosConfig config;
  bool dry_run = false;
  std::int64_t node_allocatable = 0;  // bytes; 0: unknown
  std::int64_t min_limit = 0;         // the most memory.min of the node; bytes, 0: unknown
  // What a lifted memory.high leaves to the node; nothing: unknown, and none is lifted.
  std::optional<Bytes> lift_reserve;
  std::vector<std::shared_ptr<const Pod>> pods;
  std::vector<policy::QosPodCgroup> cgroups;  // without containers
  std::uint64_t unknown_pods = 0;
};

// Base: there is none.
// Thread rule: the loop's thread only, except report(). Only the destructor waits.
class LoopMemoryQos {
 public:
  LoopMemoryQos() = default;
  LoopMemoryQos(const LoopMemoryQos&) = delete;
  LoopMemoryQos& operator=(const LoopMemoryQos&) = delete;
  virtual ~LoopMemoryQos() = default;

  // Takes effect on the thread, which the first call starts. With mode off it has no values.
  [[nodiscard]] virtual Result<void> update(MemoryQosFacts /*facts*/) { return {}; }
  // Of the last update; any thread. Null: it is off, or there was none.
  [[nodiscard]] virtual std::shared_ptr<const MemoryQosReport> report() const { return nullptr; }
};

// What writes the values. Null: nothing is written.
struct MemoryQosWriters {
  actuators::MemoryReserveWriter* reserves = nullptr;
  MemoryHighController* high = nullptr;
};

class MemoryQosThread final : public LoopMemoryQos {
 public:
  struct Records {
    const kernel::SettingRecords& min;
    const kernel::SettingRecords& low;
    const kernel::SettingRecords& high;
  };

  // The references outlive the object, whose destructor restores what was written.
  static Result<std::unique_ptr<MemoryQosThread>> create(const kernel::CgroupTree& tree,
                                                         Records records, exports::Log& log);
  ~MemoryQosThread() override;

  [[nodiscard]] Result<void> update(MemoryQosFacts facts) override;
  [[nodiscard]] std::shared_ptr<const MemoryQosReport> report() const override;

 private:
  MemoryQosThread(const kernel::CgroupTree& tree, Records records, exports::Log& log,
                  UniqueFd changed)
      : tree_(tree), records_(records), log_(log), changed_(std::move(changed)) {}
  struct Writing {
    std::optional<actuators::MemoryReserveWriter> reserves;
    std::unique_ptr<MemoryHighController> high;  // null: it could not be made
  };
  void serve();
  void wait(const Writing& writing) const;
  // The facts of the last update, once.
  [[nodiscard]] std::shared_ptr<const MemoryQosFacts> take_facts();
  [[nodiscard]] bool has_to_stop() const;
  [[nodiscard]] std::shared_ptr<const MemoryQosReport> carry_out(const MemoryQosFacts& facts,
                                                                 Writing& writing);
  void begin_writing(Writing& writing);
  void stop_writing(Writing& writing);
  void log_problem(const std::string& problem);

  const kernel::CgroupTree& tree_;
  const Records records_;
  exports::Log& log_;
  const UniqueFd changed_;  // eventfd: facts_ or stop_ changed
  mutable base::PriorityMutex mutex_;
  // Guarded by the mutex, which is held only to swap them: nothing is copied or freed under it.
  std::shared_ptr<const MemoryQosFacts> facts_;
  bool changed_facts_ = false;
  std::shared_ptr<const MemoryQosReport> report_;
  bool stop_ = false;

  std::thread thread_;  // last: serve() uses all members above
};

// Whether values are written: cgroup v2, mode enforce, no dry run.
[[nodiscard]] bool enforces_memory_qos(const kernel::CgroupTree& tree,
                                       const MemoryQosConfig& config, bool dry_run);

// Reads the cgroups and computes every value, on the caller's thread. Without writers it writes
// nothing.
[[nodiscard]] MemoryQosReport observe_memory_qos(const kernel::CgroupTree& tree,
                                                 const MemoryQosFacts& facts,
                                                 MemoryQosWriters writers = {},
                                                 MonotonicTime now = {});

}  // namespace forestall::agent
