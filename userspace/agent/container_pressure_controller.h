// SPDX-License-Identifier: Apache-2.0
// The response to memory pressure of single containers: waits for it
// (sources/container_pressure_reader.h), decides (policy/container_pressure.h), reclaims from them,
// lifts their memory.high and takes the lift back. Evictions are the loop's
// (policy/pressure_evictions.h).
//
// A container is read once a second while it has events, else not at all. It only ever acts on the
// container whose own files show the pressure. At most kWatchedMax are watched, the oldest ones of
// each pod first.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actuators/memory_high_lifter.h"
#include "agent/lift_headroom.h"
#include "agent/pressure_targets.h"
#include "base/clock.h"
#include "base/result.h"
#include "exports/log.h"
#include "kernel/cgroup_tree.h"
#include "kernel/setting_records.h"
#include "model/container_pressure.h"
#include "model/kill.h"
#include "policy/container_pressure.h"
#include "policy/pressure_evictions.h"
#include "sources/container_pressure_reader.h"

namespace forestall::agent {

// Thread rule: one thread at a time. The destructor takes back every lift, within about a second.
class ContainerPressureController {
 public:
  ~ContainerPressureController();
  ContainerPressureController(const ContainerPressureController&) = delete;
  ContainerPressureController& operator=(const ContainerPressureController&) = delete;

  // Between two readings of a container with events.
  static constexpr Duration kReadEvery = std::chrono::seconds(1);
  // Between two requests to evict a pod that is refused: each doubles it.
  static constexpr Duration kRequestPauseMax = std::chrono::seconds(30);
  static constexpr std::size_t kWatchedMax = 512;

  // REQUIRES: cgroup v2. The references outlive it. wait() also ends when one of `others` is
  // readable.
  static Result<std::unique_ptr<ContainerPressureController>> create(
      const kernel::CgroupTree& tree, const kernel::SettingRecords& records, exports::Log& log,
      const std::vector<int>& others, const std::string& proc = "/proc");

  // From now on exactly these are watched; none: it is off. Lifts of others are taken back, and all
  // of them if the configuration does not lift. Why one cannot be watched is logged once.
  void apply(const ContainerPressureConfig& config, PressureTargets targets, MonotonicTime now);
  // What is due; at most one write to memory.reclaim. Whether the report has changed.
  bool advance(MonotonicTime now);
  // Until something is to be done, at latest until `due`.
  void wait(std::optional<MonotonicTime> due);
  [[nodiscard]] std::optional<MonotonicTime> next_due() const;
  [[nodiscard]] ContainerPressureReport report();
  // Of the last evaluation. The processes after a kill are not those that were under pressure: what
  // is in a killed cgroup begins anew. Pods that are refused are requested less often.
  void note_evaluation(const std::vector<KillProgress>& kills,
                       const std::vector<policy::PressureRefusal>& refusals, MonotonicTime now);
  // Containers whose last reading demands that their pods are evicted, in the order of the
  // response.
  [[nodiscard]] const std::vector<PressedContainer>& evictions() const { return evictions_; }
  // Whether the last advance() has added some.
  [[nodiscard]] bool has_new_evictions() const { return has_new_evictions_; }

 private:
  struct Watched {
    PressureTarget target;
    policy::ContainerPressureState state = {};
    std::optional<ContainerPressureReading> armed = {};  // of the last arming
    std::optional<MonotonicTime> next_reading = {};      // nothing: with the next event
    PressureStages impossible = {};
    policy::ContainerPressureStep last = {};
    std::string result = {};
    std::string restore_problem = {};  // logged once
    bool is_queued = false;            // for reclaim
    bool is_lifted = false;
    bool is_unread = false;  // the last reading failed
    // Another process has written its memory.high during the lift. It stays until the pressure
    // ends.
    bool is_taken = false;
    bool has_news = false;                         // to be logged
    std::optional<PressedContainer> request = {};  // to evict its pod, of the last reading
    Duration request_pause{0};                     // above 0: it was refused
    std::optional<MonotonicTime> next_request = {};
    std::optional<std::pair<MonotonicTime, KillState>> last_kill = {};  // that is noted
  };
  // What is to be done after one round of readings, in the order of the response.
  using Wanted = std::array<std::vector<Watched*>, kPressureStages.size()>;

  ContainerPressureController(const kernel::CgroupTree& tree, const kernel::SettingRecords& records,
                              exports::Log& log, LiftHeadroom headroom,
                              std::unique_ptr<sources::ContainerPressureReader> reader)
      : tree_(tree),
        log_(log),
        reader_(std::move(reader)),
        headroom_(std::move(headroom)),
        lifter_(tree, records) {}
  [[nodiscard]] Result<void> watch(PressureTarget target, MonotonicTime now);
  [[nodiscard]] Result<void> watch_anew(Watched& watched, MonotonicTime now);
  void log_unwatched(std::map<std::string, std::string> unwatched);
  void begin(Watched& watched, MonotonicTime now);
  void wait_for_event(Watched& watched, MonotonicTime now);
  [[nodiscard]] policy::PressureScene scene_of(Watched& watched);
  [[nodiscard]] bool take_reading(Watched& watched, MonotonicTime now);
  [[nodiscard]] bool take_readings(MonotonicTime now, Wanted& wanted);
  void note_stage(Watched& watched, PressureStage before);
  void request_evictions(const Wanted& wanted, MonotonicTime now);
  void request_eviction(Watched& watched, MonotonicTime now);
  static void note_kill(Watched& watched, const KillProgress& kill);
  static void end_pause(Watched& watched);
  void lift(Watched& watched);
  [[nodiscard]] Result<Bytes> lift_fully(const PressureTarget& target);
  void take_back(Watched& watched);
  void log_restored(const std::string& path, const std::string& subject,
                    const std::string& problem);
  void queue_reclaims(const std::vector<Watched*>& wanted);
  [[nodiscard]] bool reclaim_next(MonotonicTime now);
  void go_on_leaving(MonotonicTime now);
  void reclaim(Watched& watched);
  void log_stage(const Watched& watched) const;

  const kernel::CgroupTree& tree_;
  exports::Log& log_;
  const std::unique_ptr<sources::ContainerPressureReader> reader_;
  LiftHeadroom headroom_;
  actuators::MemoryHighLifter lifter_;
  ContainerPressureConfig config_;
  std::optional<Bytes> reserve_;
  std::map<CgroupId, Watched> watched_;
  std::map<std::string, std::string> unwatched_;  // path, and why; logged
  std::map<CgroupId, Watched> leaving_;  // not watched any more, and their lift is being taken back
  std::optional<MonotonicTime> next_leaving_;
  std::vector<CgroupId> woken_;
  std::deque<CgroupId> reclaims_;
  MonotonicTime next_reclaim_;
  std::vector<PressedContainer> evictions_;
  bool has_new_evictions_ = false;
  std::optional<bool> node_short_;  // of this advance()
  ContainerPressureReport counts_;
};

}  // namespace forestall::agent
