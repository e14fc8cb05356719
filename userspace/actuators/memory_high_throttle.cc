// SPDX-License-Identifier: Apache-2.0
#include "actuators/memory_high_throttle.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <mutex>
#include <optional>
#include <utility>

#include "actuators/event_wait.h"
#include "base/clock.h"
#include "base/start_thread.h"
#include "kernel/scheduling.h"

namespace forestall::actuators {

MemoryHighThrottle::MemoryHighThrottle(const kernel::CgroupTree& tree,
                                       const kernel::SettingRecords& records, UniqueFd reported)
    : tree_(tree), records_(records), reported_(std::move(reported)) {}

Result<std::unique_ptr<MemoryHighThrottle>> MemoryHighThrottle::create(
    const kernel::CgroupTree& tree, const kernel::SettingRecords& records) {
  if (tree.version() != kernel::CgroupVersion::v2) {
    return Error{ENOTSUP, "cgroup v1 has no memory.high"};
  }
  UniqueFd reported(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!reported) return errno_error("eventfd", "for memory.high throttling");
  std::unique_ptr<MemoryHighThrottle> throttle(
      new MemoryHighThrottle(tree, records, std::move(reported)));
  // A thread inherits its creator's mask: with all signals blocked before, it never gets one.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto thread = start_thread("forestall-high", [made = throttle.get()] { made->serve(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  throttle->thread_ = TRY(std::move(thread));
  return throttle;
}

MemoryHighThrottle::~MemoryHighThrottle() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ::eventfd_write(reported_.get(), 1);
  thread_.join();
}

void MemoryHighThrottle::apply(std::vector<ThrottledCgroup> wanted) {
  if (wanted == last_) return;
  last_ = wanted;
  {
    const std::lock_guard lock(mutex_);
    wanted_.swap(wanted);
  }
  ::eventfd_write(reported_.get(), 1);
}

std::vector<std::string> MemoryHighThrottle::take_failures() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failures_, {});
}

std::vector<RuleSetting> MemoryHighThrottle::settings() {
  std::vector<RuleSetting> settings;
  const std::lock_guard lock(mutex_);
  for (const ThrottledCgroup& each : wanted_) {
    settings.push_back({RuleSetting::Kind::throttle, each.cgroup, each.path, each.high});
  }
  return settings;
}

bool MemoryHighThrottle::has_to_stop() {
  const std::lock_guard lock(mutex_);
  return stop_;
}

void MemoryHighThrottle::add_failure(const RuleSettingResult& result) {
  if (!result.failure) return;
  const std::lock_guard lock(mutex_);
  failures_.push_back(result.path + ": " + result.failure->text());
}

void MemoryHighThrottle::serve() {
  pthread_setname_np(pthread_self(), "forestall-high");
  kernel::use_ordinary_priority();
  const SystemClock clock;
  // Freezes nothing. Its destructor restores every value.
  RuleSettingsWriter writer(tree_, {records_, records_},
                            [this](const RuleSettingResult& result) { add_failure(result); });
  std::optional<MonotonicTime> due;
  while (!has_to_stop()) {
    writer.set_wanted(settings());
    due = writer.advance(clock.now());
    wait_for_event(reported_.get(), due);
  }
}

}  // namespace forestall::actuators
