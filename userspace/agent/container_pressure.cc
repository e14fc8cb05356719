// SPDX-License-Identifier: Apache-2.0
#include "agent/container_pressure.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <mutex>

#include "actuators/event_wait.h"
#include "base/blocked_signals.h"
#include "base/start_thread.h"
#include "exports/log_line.h"
#include "kernel/scheduling.h"

namespace forestall::agent {

Result<std::unique_ptr<ContainerPressureThread>> ContainerPressureThread::create(
    const kernel::CgroupTree& tree, const kernel::SettingRecords& records, exports::Log& log) {
  UniqueFd changed(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd to_evict(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!changed || !to_evict) return errno_error("eventfd", "for pressure of containers");
  return std::unique_ptr<ContainerPressureThread>(
      new ContainerPressureThread(tree, records, log, std::move(changed), std::move(to_evict)));
}

ContainerPressureThread::~ContainerPressureThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ::eventfd_write(changed_.get(), 1);
  thread_.join();
}

Result<void> ContainerPressureThread::update(ContainerPressureFacts facts) {
  if (!thread_.joinable()) {
    if (!facts.config.is_on()) return {};
    const base::BlockedSignals none_for_the_thread;
    thread_ = TRY(start_thread("forestall-press", [this] { serve(); }));
  }
  auto next = std::make_shared<const ContainerPressureFacts>(std::move(facts));
  {
    const std::lock_guard lock(mutex_);
    facts_.swap(next);
  }
  ::eventfd_write(changed_.get(), 1);
  return {};
}

std::shared_ptr<const ContainerPressureReport> ContainerPressureThread::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

// Those of the last update, once.
std::shared_ptr<const ContainerPressureFacts> ContainerPressureThread::take_facts() {
  const std::lock_guard lock(mutex_);
  return std::exchange(facts_, nullptr);
}

bool ContainerPressureThread::has_to_stop() const {
  const std::lock_guard lock(mutex_);
  return stop_;
}

void ContainerPressureThread::publish(std::shared_ptr<const ContainerPressureReport> report) {
  const std::lock_guard lock(mutex_);
  report_.swap(report);
}

// Those of containers that are read at other times stay; what is not taken becomes too old for the
// policy.
void ContainerPressureThread::publish_evictions() {
  if (!controller_->has_new_evictions()) return;
  std::vector<PressedContainer> evictions = controller_->evictions();
  {
    const std::lock_guard lock(mutex_);
    evictions_.swap(evictions);
  }
  ::eventfd_write(to_evict_.get(), 1);
}

std::vector<PressedContainer> ContainerPressureThread::take_evictions() {
  eventfd_t ignored = 0;
  ::eventfd_read(to_evict_.get(), &ignored);
  const std::lock_guard lock(mutex_);
  return std::exchange(evictions_, {});
}

void ContainerPressureThread::note_evaluation(const std::vector<KillProgress>& kills,
                                              std::vector<policy::PressureRefusal> refusals) {
  if (!thread_.joinable()) return;
  const bool is_same =
      std::ranges::equal(kills, kills_, [](const KillProgress& a, const KillProgress& b) {
        return a.cgroup == b.cgroup && a.started == b.started && a.state == b.state;
      });
  if (is_same && refusals.empty()) return;
  kills_ = kills;
  auto next =
      std::make_unique<const PressureFeedback>(PressureFeedback{kills, std::move(refusals)});
  {
    const std::lock_guard lock(mutex_);
    evaluation_.swap(next);
  }
  ::eventfd_write(changed_.get(), 1);
}

std::unique_ptr<const ContainerPressureThread::PressureFeedback>
ContainerPressureThread::take_evaluation() {
  const std::lock_guard lock(mutex_);
  return std::move(evaluation_);
}

void ContainerPressureThread::carry_out(const ContainerPressureFacts& facts) {
  is_on_ = facts.config.is_on();
  if (!is_on_) {
    // It goes on with lifts that are being taken back, and with its counts.
    if (controller_) controller_->apply({}, {}, SystemClock().now());
    static_cast<void>(take_evictions());
    return publish(nullptr);
  }
  std::string problem = begin();
  log_problem(problem);
  if (!problem.empty()) {
    ContainerPressureReport none;
    none.enforces = facts.config.enforces;
    none.problem = std::move(problem);
    return publish(std::make_shared<const ContainerPressureReport>(std::move(none)));
  }
  controller_->apply(facts.config, find_pressure_targets(tree_, facts, self_.paths(tree_)),
                     SystemClock().now());
  publish(std::make_shared<const ContainerPressureReport>(controller_->report()));
}

// Once.
void ContainerPressureThread::log_problem(const std::string& problem) {
  if (problem == std::exchange(problem_, problem) || problem.empty()) return;
  exports::LogLine line("container-pressure");
  log_.write(exports::LogLevel::warning, line.field("problem", problem));
}

// Why nothing can be watched; empty: it can.
std::string ContainerPressureThread::begin() {
  if (controller_) return {};
  if (tree_.version() != kernel::CgroupVersion::v2) {
    return "cgroup v1 has no memory.high, and no events of a limit";
  }
  auto made = ContainerPressureController::create(tree_, records_, log_, {changed_.get()});
  if (!made) return made.error().text();
  controller_ = std::move(made).value();
  return {};
}

void ContainerPressureThread::wait() {
  if (!controller_) return actuators::wait_for_event(changed_.get(), std::nullopt);
  controller_->wait(controller_->next_due());
  eventfd_t ignored = 0;
  ::eventfd_read(changed_.get(), &ignored);
}

// Whether the report has changed.
bool ContainerPressureThread::advance(const PressureFeedback* evaluation) {
  const MonotonicTime now = SystemClock().now();
  if (evaluation != nullptr) {
    controller_->note_evaluation(evaluation->kills, evaluation->refusals, now);
  }
  return controller_->advance(now) || evaluation != nullptr;
}

void ContainerPressureThread::serve() {
  pthread_setname_np(pthread_self(), "forestall-press");
  kernel::use_ordinary_priority();
  while (!has_to_stop()) {
    if (const auto facts = take_facts()) carry_out(*facts);
    const auto evaluation = take_evaluation();
    if (controller_ && advance(evaluation.get()) && is_on_) {
      publish(std::make_shared<const ContainerPressureReport>(controller_->report()));
      publish_evictions();
    }
    wait();
  }
  controller_.reset();
}

}  // namespace forestall::agent
