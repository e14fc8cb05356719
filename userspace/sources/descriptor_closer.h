// SPDX-License-Identifier: Apache-2.0
// A thread that closes descriptors whose close() waits. That of a PSI trigger waits for an RCU
// grace period (kernel/sched/psi.c psi_trigger_destroy()), 10 to 50 ms.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::sources {

// Thread rule: any thread.
class DescriptorCloser {
 public:
  static Result<std::unique_ptr<DescriptorCloser>> create();
  DescriptorCloser(const DescriptorCloser&) = delete;
  DescriptorCloser& operator=(const DescriptorCloser&) = delete;
  // Waits until all are closed.
  ~DescriptorCloser();

  // Does not wait. Until the thread comes to it, the descriptor remains open: remove it from an
  // epoll first.
  void close(UniqueFd descriptor);

 private:
  explicit DescriptorCloser(UniqueFd changed) : changed_(std::move(changed)) {}
  void serve();

  const UniqueFd changed_;  // wakes the thread
  std::atomic<bool> stopping_{false};
  base::PriorityMutex mutex_;
  std::vector<UniqueFd> waiting_;  // guarded by mutex_
  std::thread thread_;             // last: serve() uses all of the above
};

}  // namespace forestall::sources
