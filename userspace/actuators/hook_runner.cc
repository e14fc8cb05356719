// SPDX-License-Identifier: Apache-2.0
#include "actuators/hook_runner.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>

#include "actuators/hook_run.h"
#include "base/blocked_signals.h"
#include "base/start_thread.h"
#include "kernel/scheduling.h"

namespace forestall::actuators {
namespace {

// The loop takes results as they come; more than this are dropped.
constexpr std::size_t kHookResultsMax = 256;

bool contains(const std::vector<std::uint64_t>& runs, std::uint64_t run) {
  return std::ranges::find(runs, run) != runs.end();
}

// The runs of the thread.
class Runs {
 public:
  explicit Runs(const std::string& supervisor) : supervisor_(supervisor) {}

  void start(const HookRequest& request) {
    const MonotonicTime now = clock_.now();
    drop_gone();
    if (running_.size() >= HookRunnerThread::kRunningMax) {
      return refuse(request, now, Error{EBUSY, "too many prekill hooks run"});
    }
    auto run = request.hook.socket.empty() ? start_program(request, supervisor_, now)
                                           : start_socket(request);
    if (!run) return refuse(request, now, run.error());
    running_.push_back({request.run, now, request.until, std::move(*run), false});
  }

  void cancel() {
    for (Running& each : running_) end(each);
    results_.clear();
  }

  void cancel(const std::vector<std::uint64_t>& runs) {
    for (Running& each : running_) {
      if (contains(runs, each.run)) end(each);
    }
    std::erase_if(results_, [&](const HookResult& each) { return contains(runs, each.run); });
  }

  // What to poll for, in the order of the runs; -1 for those that have nothing to wait for.
  void add_to(std::vector<pollfd>& fds) const {
    for (const Running& each : running_) fds.push_back(each.hook->awaited());
  }

  [[nodiscard]] int milliseconds_left() const {
    std::optional<MonotonicTime> first;
    for (const Running& each : running_) {
      if (!each.ended) first = std::min(first.value_or(each.until), each.until);
    }
    if (!first) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*first - clock_.now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
  }

  // `fds`: as add_to() made them, after poll().
  void advance(const pollfd* fds) {
    const MonotonicTime now = clock_.now();
    for (std::size_t i = 0; i < running_.size(); ++i) {
      Running& each = running_[i];
      if (each.ended) continue;
      if (fds[i].revents != 0) {
        if (auto result = each.hook->advance()) add(each, std::move(*result), now);
      }
      if (!each.ended && each.until <= now) add(each, {.state = HookState::timed_out}, now);
    }
    drop_gone();
  }

  [[nodiscard]] std::vector<HookResult> take_results() { return std::exchange(results_, {}); }

 private:
  struct Running {
    std::uint64_t run;
    MonotonicTime begun;
    MonotonicTime until;
    std::unique_ptr<HookRun> hook;
    bool ended;  // its result is there; its processes may be left
  };

  void refuse(const HookRequest& request, MonotonicTime begun, const Error& why) {
    HookResult result;
    result.run = request.run;
    result.took = clock_.now() - begun;
    result.problem = why.text();
    results_.push_back(std::move(result));
  }

  void add(Running& run, HookResult result, MonotonicTime now) {
    result.run = run.run;
    result.took = now - run.begun;
    results_.push_back(std::move(result));
    end(run);
  }

  static void end(Running& run) {
    run.ended = true;
    run.hook->end();
  }

  void drop_gone() {
    std::erase_if(running_, [](Running& each) { return each.ended && each.hook->is_gone(); });
  }

  const std::string& supervisor_;
  const SystemClock clock_;
  std::vector<Running> running_;
  std::vector<HookResult> results_;
};

}  // namespace

Result<void> HookRunner::start() {
  return Error{ENOTSUP, "this agent runs no prekill hooks"};
}

HookRunnerThread::HookRunnerThread(std::string supervisor, UniqueFd changed, UniqueFd stopped,
                                   UniqueFd done)
    : supervisor_(std::move(supervisor)),
      changed_(std::move(changed)),
      stopped_(std::move(stopped)),
      done_(std::move(done)) {}

Result<std::unique_ptr<HookRunnerThread>> HookRunnerThread::create(std::string supervisor) {
  UniqueFd changed(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd stopped(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd done(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!changed || !stopped || !done) return errno_error("eventfd", "for prekill hooks");
  return std::unique_ptr<HookRunnerThread>(new HookRunnerThread(
      std::move(supervisor), std::move(changed), std::move(stopped), std::move(done)));
}

Result<void> HookRunnerThread::start() {
  if (thread_.joinable()) return {};
  TRY(adopt_orphans());
  const base::BlockedSignals none_for_the_thread;
  thread_ = TRY(start_thread("forestall-hooks", [this] { serve(); }));
  return {};
}

HookRunnerThread::~HookRunnerThread() {
  if (!thread_.joinable()) return;
  ::eventfd_write(stopped_.get(), 1);
  thread_.join();
}

void HookRunnerThread::run(HookRequest request) {
  {
    const std::lock_guard lock(mutex_);
    orders_.requests.push_back(std::move(request));
  }
  ::eventfd_write(changed_.get(), 1);
}

void HookRunnerThread::cancel() {
  {
    const std::lock_guard lock(mutex_);
    orders_ = {{}, true, {}};
    results_.clear();
  }
  ::eventfd_write(changed_.get(), 1);
}

void HookRunnerThread::cancel_runs(const std::vector<std::uint64_t>& runs) {
  {
    const std::lock_guard lock(mutex_);
    const auto is_dropped = [&](const auto& each) { return contains(runs, each.run); };
    std::erase_if(orders_.requests, is_dropped);
    std::erase_if(results_, is_dropped);
    orders_.cancelled_runs.insert(orders_.cancelled_runs.end(), runs.begin(), runs.end());
  }
  ::eventfd_write(changed_.get(), 1);
}

std::vector<HookResult> HookRunnerThread::take_results() {
  eventfd_t ignored = 0;
  ::eventfd_read(done_.get(), &ignored);
  const std::lock_guard lock(mutex_);
  return std::exchange(results_, {});
}

HookRunnerThread::Orders HookRunnerThread::take_orders() {
  eventfd_t ignored = 0;
  ::eventfd_read(changed_.get(), &ignored);
  const std::lock_guard lock(mutex_);
  return std::exchange(orders_, {});
}

void HookRunnerThread::add_results(std::vector<HookResult> results) {
  if (results.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    if (orders_.cancelled) return;  // they are of runs that the loop has dropped
    for (HookResult& each : results) {
      if (contains(orders_.cancelled_runs, each.run)) continue;
      if (results_.size() < kHookResultsMax) results_.push_back(std::move(each));
    }
  }
  ::eventfd_write(done_.get(), 1);
}

void HookRunnerThread::serve() {
  pthread_setname_np(pthread_self(), "forestall-hooks");
  kernel::use_ordinary_priority();
  Runs runs(supervisor_);
  for (;;) {
    std::vector<pollfd> fds{{stopped_.get(), POLLIN, 0}, {changed_.get(), POLLIN, 0}};
    runs.add_to(fds);
    if (::poll(fds.data(), fds.size(), runs.milliseconds_left()) < 0) continue;
    if (fds[0].revents != 0) return;
    runs.advance(fds.data() + 2);
    if (fds[1].revents != 0) {
      const Orders orders = take_orders();
      if (orders.cancelled) runs.cancel();
      runs.cancel(orders.cancelled_runs);
      for (const HookRequest& each : orders.requests) runs.start(each);
    }
    add_results(runs.take_results());
  }
}

}  // namespace forestall::actuators
