// SPDX-License-Identifier: Apache-2.0
#include "sources/disk_walker.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sources/pod_statistics.h"

namespace forestall::sources {
namespace {

// From linux/ioprio.h, which C++ cannot include: the class is above bit 13, the level below.
constexpr int kIoPrioWhoProcess = 1;
constexpr int kIoPrioBestEffort = 2 << 13;
constexpr int kIoPrioLast = 7;
constexpr int kNicest = 19;

// 0 means the calling thread for both calls (setpriority(2), BUGS). Neither needs a privilege: they
// only lower the priority.
void use_lowest_priority() {
  ::setpriority(PRIO_PROCESS, 0, kNicest);
  ::syscall(SYS_ioprio_set, kIoPrioWhoProcess, 0, kIoPrioBestEffort | kIoPrioLast);
}

}  // namespace

Result<std::unique_ptr<DiskWalker>> DiskWalker::create() {
  std::unique_ptr<DiskWalker> made(new DiskWalker);
  made->thread_ =
      TRY(base::JobThread::create("forestall-disk", [walker = made.get()] { walker->walk(); }));
  return made;
}

DiskWalker::~DiskWalker() {
  cancelled_ = true;
}

bool DiskWalker::request_walk(const FilesystemPlaces& places, std::vector<std::string> uids,
                              MonotonicTime now, Duration age_max) {
  if (walking_ || fresh(now, age_max)) return walking_;
  request_ = {places, std::move(uids)};
  cancelled_ = false;
  walking_ = thread_->start();
  requested_at_ = now;
  return walking_;
}

void DiskWalker::cancel() {
  cancelled_ = true;
}

bool DiskWalker::collect(MonotonicTime now) {
  if (!thread_->finish()) return false;
  walking_ = false;
  if (cancelled_) {
    for (const auto& [uid, statistics] : walked_.pods)
      found_.pods.insert_or_assign(uid, statistics);
    return true;
  }
  found_ = walked_;
  began_at_ = requested_at_;
  ended_at_ = now;
  return true;
}

const PodStatistics* DiskWalker::find(const std::string& uid) const {
  const auto found = found_.pods.find(uid);
  return found == found_.pods.end() ? nullptr : &found->second;
}

void DiskWalker::walk() {
  use_lowest_priority();
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
