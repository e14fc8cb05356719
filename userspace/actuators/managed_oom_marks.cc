// SPDX-License-Identifier: Apache-2.0
#include "actuators/managed_oom_marks.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>
#include <mutex>
#include <string>

#include "base/blocked_signals.h"
#include "base/parse.h"
#include "base/start_thread.h"
#include "kernel/scheduling.h"

namespace forestall::actuators {

Result<void> add_to_attribute(int directory, const char* name, std::uint64_t number) {
  std::array<char, 32> text{};
  std::uint64_t before = 0;
  const ssize_t size = ::fgetxattr(directory, name, text.data(), text.size());
  if (size < 0 && errno != ENODATA) return errno_error("fgetxattr", name);
  if (size >= 0) {
    const auto parsed = parse_u64(std::string_view(text.data(), static_cast<std::size_t>(size)));
    if (!parsed) return Error{EINVAL, std::string(name) + " has no number"};
    before = *parsed;
  }
  if (before > std::numeric_limits<std::uint64_t>::max() - number) {
    return Error{EOVERFLOW, std::string(name) + " would be too large"};
  }
  const std::string sum = std::to_string(before + number);
  if (::fsetxattr(directory, name, sum.data(), sum.size(), 0) != 0) {
    return errno_error("fsetxattr", name);
  }
  return {};
}

Result<void> mark_managed_oom(const kernel::CgroupTree& tree, const ManagedOomMark& mark) {
  const kernel::CgroupDir cgroup = TRY(tree.open(mark.victim.path));
  if (cgroup.id() != mark.victim.cgroup) {
    return Error{ENOENT, mark.victim.path + " is another cgroup now"};
  }
  // The cgroup's own descriptor is O_PATH, which has no attributes.
  const UniqueFd directory = TRY(cgroup.open_file(".", O_RDONLY | O_DIRECTORY));
  TRY(add_to_attribute(directory.get(), "user.oomd_ooms", 1));
  return add_to_attribute(directory.get(), "user.oomd_kill", mark.processes);
}

Result<std::unique_ptr<ManagedOomMarkerThread>> ManagedOomMarkerThread::start(
    const kernel::CgroupTree& tree, Report report) {
  UniqueFd changed(::eventfd(0, EFD_CLOEXEC));
  if (!changed) return errno_error("eventfd", "for marks of killed cgroups");
  std::unique_ptr<ManagedOomMarkerThread> marker(
      new ManagedOomMarkerThread(tree, std::move(report), std::move(changed)));
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

void ManagedOomMarkerThread::mark(ManagedOomMark mark) {
  bool is_full = false;
  const std::string path = mark.victim.path;
  {
    const std::lock_guard lock(mutex_);
    is_full = waiting_.size() == kWaitingMax;
    if (!is_full) waiting_.push_back(std::move(mark));
  }
  if (is_full) return report_(path + ": not marked: too many marks wait");
  ::eventfd_write(changed_.get(), 1);
}

bool ManagedOomMarkerThread::take(std::deque<ManagedOomMark>& marks) {
  const std::lock_guard lock(mutex_);
  marks = std::exchange(waiting_, {});
  return !stopped_ || !marks.empty();
}

void ManagedOomMarkerThread::serve() {
  pthread_setname_np(pthread_self(), "oomd-mark");
  kernel::use_ordinary_priority();
  // PID 1 reads the attributes when the victim has exited. Fails without CAP_SYS_NICE.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), -20);
  for (std::deque<ManagedOomMark> marks; take(marks);) {
    for (const ManagedOomMark& each : marks) {
      const auto marked = mark_managed_oom(tree_, each);
      if (!marked) report_(each.victim.path + ": " + marked.error().text());
    }
    eventfd_t ignored = 0;
    if (marks.empty()) ::eventfd_read(changed_.get(), &ignored);  // waits
  }
}

}  // namespace forestall::actuators
