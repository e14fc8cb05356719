// SPDX-License-Identifier: Apache-2.0
// Sends systemd-oomd's signal after each kill in its place. The name org.freedesktop.oom1 is free
// while systemd-oomd does not run; while another program has it, no signal is sent, and the name is
// requested again from time to time.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "actuators/managed_oom_marks.h"
#include "base/clock.h"
#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "clients/killed_signal.h"
#include "exports/log.h"

namespace forestall::daemon {

// A thread of its own waits for the bus. Thread rule: set_on() and send() from the loop's thread.
class KilledSignals {
 public:
  // Signals that wait; a further one is dropped.
  static constexpr std::size_t kWaitingMax = 64;

  // Off until set_on(). `log` outlives it. `address`: of the bus; empty: the system bus. `retry`:
  // between two requests of the name.
  static Result<std::unique_ptr<KilledSignals>> start(exports::Log& log, std::string address = "",
                                                      Duration retry = std::chrono::seconds(10));
  KilledSignals(const KilledSignals&) = delete;
  KilledSignals& operator=(const KilledSignals&) = delete;
  ~KilledSignals();

  // Off: the name is free for another program.
  void set_on(bool on);
  void send(const std::string& cgroup, bool for_swap);
  // Why no signal is sent; empty: they are sent. Nothing: off. Any thread.
  [[nodiscard]] std::optional<std::string> problem() const;

 private:
  struct Killed {
    std::string cgroup;
    const char* reason;
  };

  KilledSignals(exports::Log& log, std::string address, Duration retry, UniqueFd wake)
      : log_(log), address_(std::move(address)), retry_(retry), wake_(std::move(wake)) {}
  // All of these on the thread.
  void run();
  [[nodiscard]] Result<void> run_connected();
  void wait(int milliseconds) const;
  [[nodiscard]] std::deque<Killed> take_waiting();
  void note_problem(const std::string& problem);

  exports::Log& log_;
  const std::string address_;
  const Duration retry_;
  const UniqueFd wake_;  // eventfd: what the mutex guards changed
  std::atomic<bool> stopping_{false};
  std::atomic<bool> on_{false};
  std::unique_ptr<clients::KilledSignal> signal_;  // of the thread; null: it has not the name

  mutable base::PriorityMutex mutex_;
  std::deque<Killed> waiting_;
  std::string problem_ = "not connected yet";

  std::thread thread_;  // last: uses all of the above
};

// Marks as another marker does, and sends the signal.
class SignallingMarker final : public actuators::ManagedOomMarker {
 public:
  // Both outlive it.
  SignallingMarker(actuators::ManagedOomMarker& marker, KilledSignals& signals)
      : marker_(marker), signals_(signals) {}
  void announce(const Workload& victim) override { marker_.announce(victim); }
  void mark(actuators::ManagedOomMark mark) override;

 private:
  actuators::ManagedOomMarker& marker_;
  KilledSignals& signals_;
};

}  // namespace forestall::daemon
