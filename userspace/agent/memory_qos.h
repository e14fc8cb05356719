// SPDX-License-Identifier: Apache-2.0
// The agent's own memory QoS (`memoryQoS`): which memory.min, memory.low and memory.high its
// cgroups would have (policy/memory_qos_plan.h), next to what they have. With `enforce` it writes
// memory.min and memory.low (actuators/memory_reserve_writer.h).
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

class MemoryQosThread final : public LoopMemoryQos {
 public:
  using Records = actuators::MemoryReserveWriter::Records;

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
  void serve();
  // The facts of the last update, once.
  [[nodiscard]] std::shared_ptr<const MemoryQosFacts> take_facts();
  [[nodiscard]] bool has_to_stop() const;
  [[nodiscard]] std::shared_ptr<const MemoryQosReport> carry_out(
      const MemoryQosFacts& facts, std::optional<actuators::MemoryReserveWriter>& writer);
  void stop_writing(std::optional<actuators::MemoryReserveWriter>& writer);
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

// Reads the cgroups and computes every value, on the caller's thread. With a writer, writes
// memory.min and memory.low.
[[nodiscard]] MemoryQosReport observe_memory_qos(const kernel::CgroupTree& tree,
                                                 const MemoryQosFacts& facts,
                                                 actuators::MemoryReserveWriter* writer = nullptr,
                                                 MonotonicTime now = {});

}  // namespace forestall::agent
