// SPDX-License-Identifier: Apache-2.0
// Runs prekill hooks: programs, each under a supervisor (prekill/supervisor.h), and requests to
// unix sockets.
//
// A thread of ordinary priority starts them and waits for them. A hook that takes too long has a
// result at its time, whatever is left of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "model/hook.h"
#include "model/ruleset.h"

namespace forestall::actuators {

struct HookRequest {
  std::uint64_t run = 0;
  rulesets::PrekillHook hook;
  MonotonicTime until;  // its end at the latest
  std::string input;    // for its standard input, or what is sent
};

struct HookResult {
  std::uint64_t run = 0;
  HookState state = HookState::refused;
  std::optional<int> exit_code = {};  // as HookProgress::exit_code
  Duration took{0};
  std::string problem = {};
};

// Base: no hook can run.
// Thread rule: all calls come from one thread, the loop's. Only the destructor waits, and for no
// hook.
class HookRunner {
 public:
  HookRunner() = default;
  HookRunner(const HookRunner&) = delete;
  HookRunner& operator=(const HookRunner&) = delete;
  virtual ~HookRunner() = default;

  // Before the first run(): starts the thread, once.
  [[nodiscard]] virtual Result<void> start();
  virtual void run(HookRequest /*request*/) {}
  // Ends all that run and drops all that wait; they have no result.
  virtual void cancel() {}
  // The same of these runs. A later run() may use their numbers again.
  virtual void cancel_runs(const std::vector<std::uint64_t>& /*runs*/) {}
  // Those that ended since the last call.
  [[nodiscard]] virtual std::vector<HookResult> take_results() { return {}; }
  // Polls readable when there are results; -1: never.
  [[nodiscard]] virtual int fd() const { return -1; }
};

class HookRunnerThread final : public HookRunner {
 public:
  // Hooks that run, with those whose processes are still being ended; a further one is refused.
  static constexpr std::size_t kRunningMax = 4;

  // `supervisor`: path of the program forestall-prekill.
  static Result<std::unique_ptr<HookRunnerThread>> create(std::string supervisor);
  ~HookRunnerThread() override;

  [[nodiscard]] Result<void> start() override;
  void run(HookRequest request) override;
  void cancel() override;
  void cancel_runs(const std::vector<std::uint64_t>& runs) override;
  [[nodiscard]] std::vector<HookResult> take_results() override;
  [[nodiscard]] int fd() const override { return done_.get(); }

 private:
  struct Orders {
    std::vector<HookRequest> requests;
    bool cancelled = false;                     // all before the requests
    std::vector<std::uint64_t> cancelled_runs;  // before the requests too
  };

  HookRunnerThread(std::string supervisor, UniqueFd changed, UniqueFd stopped, UniqueFd done);
  void serve();
  [[nodiscard]] Orders take_orders();
  void add_results(std::vector<HookResult> results);

  const std::string supervisor_;
  const UniqueFd changed_;  // eventfd: orders_ changed
  const UniqueFd stopped_;  // eventfd: the thread has to end
  const UniqueFd done_;     // eventfd: there are results
  base::PriorityMutex mutex_;
  // Guarded by the mutex, which is held only to move them.
  Orders orders_;
  std::vector<HookResult> results_;

  std::thread thread_;  // last: serve() uses all members above
};

}  // namespace forestall::actuators
