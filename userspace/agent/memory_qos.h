// SPDX-License-Identifier: Apache-2.0
// The agent's own memory QoS (`memoryQoS`): which memory.min, memory.low and memory.high its
// cgroups would have, next to what they have (policy/memory_qos_plan.h).
//
// A thread of its own opens and reads the cgroups: a pod has some ten files, and kernfs has locks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "model/memory_qos.h"
#include "model/pod.h"
#include "policy/memory_qos_plan.h"

namespace forestall::agent {

// What the values are computed from.
struct MemoryQosFacts {
  MemoryQosConfig config;
  std::int64_t node_allocatable = 0;  // bytes; 0: unknown
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
  // Of the last update; any thread. Nothing: it is off, or there was none.
  [[nodiscard]] virtual std::optional<MemoryQosReport> report() const { return std::nullopt; }
};

class MemoryQosThread final : public LoopMemoryQos {
 public:
  // `tree` outlives the object.
  static Result<std::unique_ptr<MemoryQosThread>> create(const kernel::CgroupTree& tree);
  ~MemoryQosThread() override;

  [[nodiscard]] Result<void> update(MemoryQosFacts facts) override;
  [[nodiscard]] std::optional<MemoryQosReport> report() const override;

 private:
  MemoryQosThread(const kernel::CgroupTree& tree, UniqueFd changed)
      : tree_(tree), changed_(std::move(changed)) {}
  void serve();

  const kernel::CgroupTree& tree_;
  const UniqueFd changed_;  // eventfd: facts_ or stop_ changed
  mutable base::PriorityMutex mutex_;
  // Guarded by the mutex, which is held only to swap or copy them.
  MemoryQosFacts facts_;
  bool changed_facts_ = false;
  std::optional<MemoryQosReport> report_;
  bool stop_ = false;

  std::thread thread_;  // last: serve() uses all members above
};

// Reads the cgroups and computes every value, on the caller's thread.
[[nodiscard]] MemoryQosReport observe_memory_qos(const kernel::CgroupTree& tree,
                                                 MemoryQosFacts facts);

}  // namespace forestall::agent
