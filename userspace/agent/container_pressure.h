// SPDX-License-Identifier: Apache-2.0
// The response to memory pressure of single containers (`containerPressure`), on a thread of its
// own: it opens and reads cgroups, and the kernel reclaims in it. Which containers are watched
// follows from the pods that the loop has found.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/container_pressure_controller.h"
#include "base/clock.h"
#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "exports/log.h"
#include "kernel/cgroup_tree.h"
#include "kernel/setting_records.h"
#include "model/container_pressure.h"
#include "model/pod.h"

namespace forestall::agent {

// The cgroup of a pod. Without facts its containers are not watched, except those that were.
struct PressurePod {
  std::string path;
  CgroupId cgroup;
  std::shared_ptr<const Pod> pod;
};

struct ContainerPressureFacts {
  ContainerPressureConfig config;
  // What a lift leaves to the node, and below which it is short. Nothing: unknown.
  std::optional<Bytes> reserve;
  std::vector<PressurePod> pods;
};

// Base: there is none.
// Thread rule: the loop's thread only, except report(). Only the destructor waits.
class LoopContainerPressure {
 public:
  LoopContainerPressure() = default;
  LoopContainerPressure(const LoopContainerPressure&) = delete;
  LoopContainerPressure& operator=(const LoopContainerPressure&) = delete;
  virtual ~LoopContainerPressure() = default;

  // Takes effect on the thread, which the first call starts that has a threshold.
  [[nodiscard]] virtual Result<void> update(ContainerPressureFacts /*facts*/) { return {}; }
  // Any thread. Null: no threshold is set, or there was no update yet.
  [[nodiscard]] virtual std::shared_ptr<const ContainerPressureReport> report() const {
    return nullptr;
  }
  // Readable while there are evictions to take; -1: never.
  [[nodiscard]] virtual int fd() const { return -1; }
  // Of the last readings that had any (policy/pressure_evictions.h), once.
  [[nodiscard]] virtual std::vector<PressedContainer> take_evictions() { return {}; }
};

class ContainerPressureThread final : public LoopContainerPressure {
 public:
  // The references outlive the object, whose destructor takes back every lift.
  static Result<std::unique_ptr<ContainerPressureThread>> create(
      const kernel::CgroupTree& tree, const kernel::SettingRecords& records, exports::Log& log);
  ~ContainerPressureThread() override;

  [[nodiscard]] Result<void> update(ContainerPressureFacts facts) override;
  [[nodiscard]] std::shared_ptr<const ContainerPressureReport> report() const override;
  [[nodiscard]] int fd() const override { return to_evict_.get(); }
  [[nodiscard]] std::vector<PressedContainer> take_evictions() override;

 private:
  ContainerPressureThread(const kernel::CgroupTree& tree, const kernel::SettingRecords& records,
                          exports::Log& log, UniqueFd changed, UniqueFd to_evict)
      : tree_(tree),
        records_(records),
        log_(log),
        changed_(std::move(changed)),
        to_evict_(std::move(to_evict)) {}
  void serve();
  void wait();
  [[nodiscard]] std::shared_ptr<const ContainerPressureFacts> take_facts();
  [[nodiscard]] bool has_to_stop() const;
  void carry_out(const ContainerPressureFacts& facts);
  [[nodiscard]] std::string begin();
  void publish(std::shared_ptr<const ContainerPressureReport> report);
  void publish_evictions();

  const kernel::CgroupTree& tree_;
  const kernel::SettingRecords& records_;
  exports::Log& log_;
  const UniqueFd changed_;   // eventfd: facts_ or stop_ changed
  const UniqueFd to_evict_;  // eventfd: evictions_ is new, and not empty
  mutable base::PriorityMutex mutex_;
  // Guarded by the mutex, which is held only to swap them: nothing is copied or freed under it.
  std::shared_ptr<const ContainerPressureFacts> facts_;
  std::shared_ptr<const ContainerPressureReport> report_;
  std::vector<PressedContainer> evictions_;
  bool stop_ = false;
  // Of the thread.
  std::unique_ptr<ContainerPressureController> controller_;  // null: nothing is watched

  std::thread thread_;  // last: serve() uses all members above
};

// The containers that may be watched, and those that are exempt. Opens and reads cgroups.
[[nodiscard]] PressureTargets find_pressure_targets(const kernel::CgroupTree& tree,
                                                    const ContainerPressureFacts& facts);

}  // namespace forestall::agent
