// SPDX-License-Identifier: Apache-2.0
#include "actuators/memory_high_throttle.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "base/start_thread.h"
#include "kernel/memory_high.h"
#include "kernel/scheduling.h"

namespace forestall::actuators {

struct MemoryHighThrottle::Applied {
  ThrottledCgroup throttled;
  kernel::MemoryHigh high;
  bool wanted = true;
};

MemoryHighThrottle::MemoryHighThrottle(const kernel::CgroupTree& tree,
                                       const kernel::SettingRecords& records, UniqueFd reported)
    : tree_(tree), records_(records), reported_(std::move(reported)) {}

Result<std::unique_ptr<MemoryHighThrottle>> MemoryHighThrottle::create(
    const kernel::CgroupTree& tree, const kernel::SettingRecords& records) {
  if (tree.version() != kernel::CgroupVersion::v2) {
    return Error{ENOTSUP, "cgroup v1 has no memory.high"};
  }
  UniqueFd reported(::eventfd(0, EFD_CLOEXEC));
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

void MemoryHighThrottle::set(const std::vector<ThrottledCgroup>& wanted,
                             std::list<Applied>& applied,
                             std::vector<std::string>& failures) const {
  for (Applied& each : applied) {
    each.wanted = std::find(wanted.begin(), wanted.end(), each.throttled) != wanted.end();
    if (each.wanted) continue;
    const auto restored = each.high.restore();
    if (!restored) failures.push_back(each.throttled.path + ": " + restored.error().text());
  }
  std::erase_if(applied, [](const Applied& each) { return !each.wanted; });
  for (const ThrottledCgroup& throttled : wanted) {
    if (std::any_of(applied.begin(), applied.end(),
                    [&](const Applied& each) { return each.throttled == throttled; })) {
      continue;
    }
    const auto cgroup = tree_.open(throttled.path);
    if (!cgroup || cgroup->id() != throttled.cgroup) continue;  // it was removed
    auto high = kernel::MemoryHigh::open(*cgroup, records_);
    const Result<void> done = high ? high->set(throttled.high) : Result<void>(high.error());
    if (!done) {
      failures.push_back(throttled.path + ": " + done.error().text());
      continue;
    }
    applied.push_back({throttled, std::move(high).value(), true});
  }
}

void MemoryHighThrottle::serve() {
  pthread_setname_np(pthread_self(), "forestall-high");
  kernel::use_ordinary_priority();
  std::list<Applied> applied;
  for (;;) {
    eventfd_t ignored = 0;
    if (::eventfd_read(reported_.get(), &ignored) != 0) continue;
    std::vector<ThrottledCgroup> wanted;
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;  // `applied` restores every value
      wanted = wanted_;
    }
    std::vector<std::string> failures;
    set(wanted, applied, failures);
    if (failures.empty()) continue;
    const std::lock_guard lock(mutex_);
    for (std::string& each : failures) failures_.push_back(std::move(each));
  }
}

}  // namespace forestall::actuators
