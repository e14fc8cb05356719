// SPDX-License-Identifier: Apache-2.0
// A thread that registers usage thresholds. Each registration waits for an RCU grace period (24 to
// 36 ms measured on 6.18), and the loop must not wait.
//
// A request replaces an earlier one of its kind for the same cgroup that has not begun, so the
// number of cgroups bounds the queue. Thresholds are registered before warning lines.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/usage_event.h"
#include "model/ids.h"

namespace forestall::sources {

class UsageArming {
 public:
  struct Request {
    CgroupId cgroup;
    bool early;  // a warning line
    std::shared_ptr<const kernel::UsageEventFiles> files;
    Bytes line;
  };
  struct Answer {
    CgroupId cgroup;
    bool early;
    Bytes line;
    Result<UniqueFd> event;
  };

  // `done` is an eventfd, written after each answer; it must outlive this object.
  explicit UsageArming(int done);
  UsageArming(const UsageArming&) = delete;
  // Waits for the running registration: at most one grace period.
  ~UsageArming();

  void request(Request request);
  [[nodiscard]] std::vector<Answer> take_answers();

 private:
  void run();
  const int done_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  bool stopping_ = false;  // guarded by mutex_
  // Guarded by mutex_: what was requested, and the order of the two kinds.
  using Key = std::pair<bool, CgroupId>;  // early
  std::map<Key, Request> requests_;
  std::deque<Key> thresholds_;
  std::deque<Key> early_;
  std::vector<Answer> answers_;  // guarded by mutex_
  std::thread thread_;           // last: run() uses all members above
};

}  // namespace forestall::sources
