// SPDX-License-Identifier: Apache-2.0
// The response to memory pressure of single containers (`containerPressure`), on a thread of its
// own: it opens and reads cgroups, and the kernel reclaims in it. Which containers are watched
// follows from the pods that the loop has found.
#pragma once

#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/container_pressure_controller.h"
#include "agent/pressure_targets.h"
#include "base/clock.h"
#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "exports/log.h"
#include "kernel/cgroup_tree.h"
#include "kernel/setting_records.h"
#include "model/container_pressure.h"
#include "model/kill.h"
#include "policy/pressure_evictions.h"
#include "sources/own_place.h"

namespace forestall::agent {

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
  // Of the last readings (policy/pressure_evictions.h), once.
  [[nodiscard]] virtual std::vector<PressedContainer> take_evictions() { return {}; }
  // What became of them in an evaluation. Does nothing without a change.
  virtual void note_evaluation(const std::vector<KillProgress>& /*kills*/,
                               std::vector<policy::PressureRefusal> /*refusals*/) {}
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
  void note_evaluation(const std::vector<KillProgress>& kills,
                       std::vector<policy::PressureRefusal> refusals) override;

 private:
  struct PressureFeedback {
    std::vector<KillProgress> kills;
    std::vector<policy::PressureRefusal> refusals;
  };
  ContainerPressureThread(const kernel::CgroupTree& tree, const kernel::SettingRecords& records,
                          exports::Log& log, UniqueFd changed, UniqueFd to_evict)
      : tree_(tree),
        records_(records),
        log_(log),
        changed_(std::move(changed)),
        to_evict_(std::move(to_evict)),
        self_("/proc/self/cgroup", ::getpid()) {}
  void serve();
  void wait();
  [[nodiscard]] std::shared_ptr<const ContainerPressureFacts> take_facts();
  [[nodiscard]] std::unique_ptr<const PressureFeedback> take_evaluation();
  [[nodiscard]] bool advance(const PressureFeedback* evaluation);
  [[nodiscard]] bool has_to_stop() const;
  void carry_out(const ContainerPressureFacts& facts);
  [[nodiscard]] std::string begin();
  void log_problem(const std::string& problem);
  void publish(std::shared_ptr<const ContainerPressureReport> report);
  void publish_evictions();

  const kernel::CgroupTree& tree_;
  const kernel::SettingRecords& records_;
  exports::Log& log_;
  const UniqueFd changed_;   // eventfd: facts_, evaluation_ or stop_ changed
  const UniqueFd to_evict_;  // eventfd: evictions_ has new ones
  mutable base::PriorityMutex mutex_;
  // Guarded by the mutex, which is held only to swap them: nothing is copied or freed under it.
  std::shared_ptr<const ContainerPressureFacts> facts_;
  std::shared_ptr<const ContainerPressureReport> report_;
  std::vector<PressedContainer> evictions_;
  std::unique_ptr<const PressureFeedback> evaluation_;  // a later one replaces it
  bool stop_ = false;
  // Of the loop's thread: the kills of the last evaluation.
  std::vector<KillProgress> kills_;
  // Of the thread.
  sources::OwnPlace self_;
  std::unique_ptr<ContainerPressureController> controller_;  // null: nothing was watched yet
  bool is_on_ = false;
  std::string problem_;  // logged

  std::thread thread_;  // last: serve() uses all members above
};

}  // namespace forestall::agent
