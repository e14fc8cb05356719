// SPDX-License-Identifier: Apache-2.0
// Restarts units of systemd for rulesets.
//
// A thread of ordinary priority waits for systemd, at most UnitRestartOptions::timeout for a unit,
// and takes one unit at a time.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::actuators {

struct UnitRestartResult {
  std::string unit;
  Duration took{0};
  std::optional<Error> failure;
  // As UnitRestartEnd::begun: despite a failure, processes of the unit may have ended.
  bool begun = false;
};

// Base: systemd does not run here.
// Thread rule: all calls come from one thread, the loop's. Only the destructor waits, and for no
// restart.
class UnitRestarter {
 public:
  UnitRestarter() = default;
  UnitRestarter(const UnitRestarter&) = delete;
  UnitRestarter& operator=(const UnitRestarter&) = delete;
  virtual ~UnitRestarter() = default;

  // Before the first restart(): starts the thread, once. ENOTSUP: no systemd.
  [[nodiscard]] virtual Result<void> start();
  // Does nothing if a restart of the unit is under way or waits.
  virtual void restart(const std::string& /*unit*/) {}
  // Drops those that have not begun; each has ECANCELED as its result.
  virtual void cancel() {}
  // Those that ended since the last call.
  [[nodiscard]] virtual std::vector<UnitRestartResult> take_results() { return {}; }
};

class UnitRestarterThread final : public UnitRestarter {
 public:
  // Restarts that wait; a further one fails.
  static constexpr std::size_t kWaitingMax = 16;
  // One that waited longer is not begun: the pressure that it was for may be over.
  static constexpr Duration kWaitMax = std::chrono::seconds(10);

  // `bus_address`: as in UnitRestartOptions.
  explicit UnitRestarterThread(std::string bus_address = "", Duration wait_max = kWaitMax)
      : bus_address_(std::move(bus_address)), wait_max_(wait_max) {}
  ~UnitRestarterThread() override;

  [[nodiscard]] Result<void> start() override;
  void restart(const std::string& unit) override;
  void cancel() override;
  [[nodiscard]] std::vector<UnitRestartResult> take_results() override;

 private:
  void serve();
  [[nodiscard]] bool is_stopped() const;
  struct Waiting {
    std::string unit;
    MonotonicTime since;
  };

  // Empty: none waits.
  [[nodiscard]] std::string take_next();
  void add_result(UnitRestartResult result);
  void end(UnitRestartResult result);          // of the one under way
  void keep_result(UnitRestartResult result);  // with the mutex

  const std::string bus_address_;
  const Duration wait_max_;
  UniqueFd changed_;  // eventfd: waiting_ changed
  UniqueFd stopped_;  // eventfd: the thread has to end; closed: there is no thread yet
  base::PriorityMutex mutex_;
  // Guarded by the mutex, which is held only to move them.
  std::deque<Waiting> waiting_;
  std::string under_way_;
  std::vector<UnitRestartResult> results_;

  std::thread thread_;  // last: serve() uses all members above
};

}  // namespace forestall::actuators
