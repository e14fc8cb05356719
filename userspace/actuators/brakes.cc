// SPDX-License-Identifier: Apache-2.0
#include "actuators/brakes.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "base/start_thread.h"
#include "kernel/memory_high.h"

namespace forestall::actuators {

struct Brakes::Held {
  Brake brake;
  kernel::MemoryHigh high;
  bool wanted = true;
};

Brakes::Brakes(const kernel::CgroupTree& tree, UniqueFd told)
    : tree_(tree), told_(std::move(told)) {}

Result<std::unique_ptr<Brakes>> Brakes::create(const kernel::CgroupTree& tree) {
  if (tree.version() != kernel::CgroupVersion::v2) {
    return Error{ENOTSUP, "cgroup v1 has no memory.high"};
  }
  UniqueFd told(::eventfd(0, EFD_CLOEXEC));
  if (!told) return errno_error("eventfd", "for memory.high throttling");
  std::unique_ptr<Brakes> brakes(new Brakes(tree, std::move(told)));
  // A thread inherits its creator's mask: with all signals blocked before, it never gets one.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto thread = start_thread("forestall-high", [made = brakes.get()] { made->serve(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  brakes->thread_ = TRY(std::move(thread));
  return brakes;
}

Brakes::~Brakes() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ::eventfd_write(told_.get(), 1);
  thread_.join();
}

void Brakes::apply(std::vector<Brake> wanted) {
  if (wanted == last_) return;
  last_ = wanted;
  {
    const std::lock_guard lock(mutex_);
    wanted_.swap(wanted);
  }
  ::eventfd_write(told_.get(), 1);
}

std::vector<std::string> Brakes::take_failures() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failures_, {});
}

void Brakes::set(const std::vector<Brake>& wanted, std::list<Held>& held,
                 std::vector<std::string>& failures) const {
  for (Held& each : held) {
    each.wanted = std::find(wanted.begin(), wanted.end(), each.brake) != wanted.end();
    if (each.wanted) continue;
    const auto restored = each.high.restore();
    if (!restored) failures.push_back(each.brake.path + ": " + restored.error().text());
  }
  std::erase_if(held, [](const Held& each) { return !each.wanted; });
  for (const Brake& brake : wanted) {
    if (std::any_of(held.begin(), held.end(),
                    [&](const Held& each) { return each.brake == brake; })) {
      continue;
    }
    const auto cgroup = tree_.open(brake.path);
    if (!cgroup || cgroup->id() != brake.cgroup) continue;  // it was removed
    auto high = kernel::MemoryHigh::open(*cgroup);
    const Result<void> done = high ? high->set(brake.high) : Result<void>(high.error());
    if (!done) {
      failures.push_back(brake.path + ": " + done.error().text());
      continue;
    }
    held.push_back({brake, std::move(high).value(), true});
  }
}

void Brakes::serve() {
  pthread_setname_np(pthread_self(), "forestall-high");
  // The thread inherits the loop's real-time priority, and reclaim may take long.
  const sched_param ordinary{};
  pthread_setschedparam(pthread_self(), SCHED_OTHER, &ordinary);
  std::list<Held> held;
  for (;;) {
    eventfd_t ignored = 0;
    if (::eventfd_read(told_.get(), &ignored) != 0) continue;
    std::vector<Brake> wanted;
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;  // `held` restores every value
      wanted = wanted_;
    }
    std::vector<std::string> failures;
    set(wanted, held, failures);
    if (failures.empty()) continue;
    const std::lock_guard lock(mutex_);
    for (std::string& each : failures) failures_.push_back(std::move(each));
  }
}

}  // namespace forestall::actuators
