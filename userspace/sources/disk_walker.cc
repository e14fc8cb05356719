// SPDX-License-Identifier: Apache-2.0
#include "sources/disk_walker.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sources/pod_statistics.h"

namespace forestall::sources {
namespace {

// linux/ioprio.h, which C++ cannot read: the class is above bit 13, the level below.
constexpr int kIoPrioWhoProcess = 1;
constexpr int kIoPrioBestEffort = 2 << 13;
constexpr int kIoPrioLast = 7;
constexpr int kNicest = 19;

// Of the calling thread alone, which is what 0 means to both (setpriority(2), BUGS). Neither is
// refused to anybody: they only lower what the thread has.
void use_lowest_priority() {
  ::setpriority(PRIO_PROCESS, 0, kNicest);
  ::syscall(SYS_ioprio_set, kIoPrioWhoProcess, 0, kIoPrioBestEffort | kIoPrioLast);
}

}  // namespace

DiskWalker::DiskWalker(UniqueFd ended_event)
    : ended_event_(std::move(ended_event)), thread_([this] { run(); }) {}

Result<std::unique_ptr<DiskWalker>> DiskWalker::create() {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return errno_error("eventfd", "for disk usage");
  return std::unique_ptr<DiskWalker>(new DiskWalker(std::move(event)));
}

DiskWalker::~DiskWalker() {
  stopping_ = true;
  cancelled_ = true;
  ++asked_;
  asked_.notify_one();
  thread_.join();
}

bool DiskWalker::ask(const FilesystemPlaces& places, std::vector<std::string> uids,
                     MonotonicTime now, Duration age_max) {
  if (walking_ || fresh(now, age_max)) return walking_;
  request_ = {places, std::move(uids)};
  cancelled_ = false;
  walking_ = true;
  asked_.fetch_add(1, std::memory_order_release);
  asked_.notify_one();
  return true;
}

void DiskWalker::cancel() {
  cancelled_ = true;
}

bool DiskWalker::collect(MonotonicTime now) {
  std::uint64_t count = 0;
  if (::read(ended_event_.get(), &count, sizeof(count)) < 0) return false;
  if (!ended_.exchange(false, std::memory_order_acquire)) return false;
  walking_ = false;
  found_ = walked_;
  if (!cancelled_) ended_at_ = now;
  return true;
}

const PodStatistics* DiskWalker::find(const std::string& uid) const {
  const auto found = found_.pods.find(uid);
  return found == found_.pods.end() ? nullptr : &found->second;
}

void DiskWalker::run() {
  use_lowest_priority();
  for (std::uint32_t seen = 0; !stopping_; ++seen) {
    asked_.wait(seen, std::memory_order_acquire);
    if (stopping_) return;
    walk();
    ended_.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    // Fails only when the counter is full, and then it is readable as well.
    [[maybe_unused]] const auto written = ::write(ended_event_.get(), &one, sizeof(one));
  }
}

void DiskWalker::walk() {
  walked_ = {};
  const auto logs = list_pod_logs(request_.places.pod_logs);
  if (!logs) walked_.notes.push_back({request_.places.pod_logs, logs.error().text()});
  for (const std::string& uid : request_.uids) {
    auto pod =
        measure_pod(request_.places, uid, logs ? *logs : PodLogs(), cancelled_, walked_.notes);
    if (pod) {
      walked_.pods.insert_or_assign(uid, std::move(pod).value());
    } else if (pod.error().code == ECANCELED) {
      return;
    } else {
      walked_.notes.push_back({uid, pod.error().text()});
    }
  }
}

}  // namespace forestall::sources
