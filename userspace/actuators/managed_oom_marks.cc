// SPDX-License-Identifier: Apache-2.0
#include "actuators/managed_oom_marks.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <string>

#include "base/blocked_signals.h"
#include "base/parse.h"
#include "base/start_thread.h"
#include "kernel/scheduling.h"

namespace forestall::actuators {
namespace {

constexpr const char* kOomsAttribute = "user.oomd_ooms";
constexpr const char* kKillAttribute = "user.oomd_kill";

}  // namespace

Result<void> add_to_attribute(int directory, const char* name, std::int64_t number) {
  std::array<char, 32> text{};
  std::uint64_t before = 0;
  const ssize_t size = ::fgetxattr(directory, name, text.data(), text.size());
  if (size < 0 && errno != ENODATA) return errno_error("fgetxattr", name);
  if (size >= 0) {
    const auto parsed = parse_u64(std::string_view(text.data(), static_cast<std::size_t>(size)));
    if (!parsed) return Error{EINVAL, std::string(name) + " has no number"};
    before = *parsed;
  }
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(before, number, &sum)) {
    return Error{EOVERFLOW, std::string(name) + " would not be a number"};
  }
  const std::string after = std::to_string(sum);
  if (::fsetxattr(directory, name, after.data(), after.size(), 0) != 0) {
    return errno_error("fsetxattr", name);
  }
  return {};
}

Result<void> add_to_attribute(const kernel::CgroupTree& tree, const Workload& victim,
                              const char* name, std::int64_t number) {
  const kernel::CgroupDir cgroup = TRY(tree.open(victim.path));
  if (cgroup.id() != victim.cgroup) {
    return Error{ENOENT, victim.path + " is another cgroup now"};
  }
  // The cgroup's own descriptor is O_PATH, which has no attributes.
  const UniqueFd directory = TRY(cgroup.open_file(".", O_RDONLY | O_DIRECTORY));
  return add_to_attribute(directory.get(), name, number);
}

namespace {

Result<void> carry_out(const kernel::CgroupTree& tree, const ManagedOomMark& mark, bool announces) {
  if (announces) return add_to_attribute(tree, mark.victim, kOomsAttribute, 1);
  if (mark.processes == 0) return add_to_attribute(tree, mark.victim, kOomsAttribute, -1);
  return add_to_attribute(tree, mark.victim, kKillAttribute,
                          static_cast<std::int64_t>(mark.processes));
}

}  // namespace

Result<std::unique_ptr<ManagedOomMarkerThread>> ManagedOomMarkerThread::start(
    const kernel::CgroupTree& tree, Report report) {
  UniqueFd changed(::eventfd(0, EFD_CLOEXEC));
  UniqueFd done(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!changed || !done) return errno_error("eventfd", "for marks of killed cgroups");
  std::unique_ptr<ManagedOomMarkerThread> marker(
      new ManagedOomMarkerThread(tree, std::move(report), std::move(changed), std::move(done)));
  const base::BlockedSignals none_for_the_thread;
  marker->thread_ = TRY(start_thread("managed-oom-mark", [raw = marker.get()] { raw->serve(); }));
  return marker;
}

ManagedOomMarkerThread::~ManagedOomMarkerThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  ::eventfd_write(changed_.get(), 1);
  thread_.join();
}

void ManagedOomMarkerThread::announce(const Workload& victim) {
  if (!submit({{.victim = victim}, true})) return;
  const SystemClock clock;
  const MonotonicTime deadline = clock.now() + kPatience;
  while (finished_ != submitted_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock.now()).count();
    if (left <= 0) return;
    pollfd done{done_.get(), POLLIN, 0};
    ::poll(&done, 1, static_cast<int>(left));
    eventfd_t ignored = 0;
    ::eventfd_read(done_.get(), &ignored);
  }
}

void ManagedOomMarkerThread::mark(ManagedOomMark mark) {
  submit({std::move(mark), false});
}

bool ManagedOomMarkerThread::submit(Order order) {
  const bool was_free = finished_ == submitted_;
  bool is_full = false;
  const std::string path = order.mark.victim.path;
  {
    const std::lock_guard lock(mutex_);
    is_full = waiting_.size() == kWaitingMax;
    if (!is_full) {
      waiting_.push_back(std::move(order));
      ++submitted_;
    }
  }
  if (is_full) {
    report_(path + ": not marked: too many marks wait");
    return false;
  }
  ::eventfd_write(changed_.get(), 1);
  return was_free;
}

bool ManagedOomMarkerThread::take(std::deque<Order>& orders) {
  const std::lock_guard lock(mutex_);
  orders = std::exchange(waiting_, {});
  return !stopped_ || !orders.empty();
}

void ManagedOomMarkerThread::serve() {
  pthread_setname_np(pthread_self(), "oomd-mark");
  kernel::use_ordinary_priority();
  // A kill waits for it. Fails without CAP_SYS_NICE.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), -20);
  for (std::deque<Order> orders; take(orders);) {
    for (const Order& each : orders) {
      const auto marked = carry_out(tree_, each.mark, each.announces);
      if (!marked) report_(each.mark.victim.path + ": " + marked.error().text());
      ++finished_;
      ::eventfd_write(done_.get(), 1);
    }
    eventfd_t ignored = 0;
    if (orders.empty()) ::eventfd_read(changed_.get(), &ignored);  // waits
  }
}

}  // namespace forestall::actuators
