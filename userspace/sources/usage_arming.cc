// SPDX-License-Identifier: Apache-2.0
#include "sources/usage_arming.h"

#include <sys/eventfd.h>

#include "kernel/scheduling.h"

namespace forestall::sources {

UsageArming::UsageArming(int done) : done_(done), thread_([this] { run(); }) {}

UsageArming::~UsageArming() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_one();
  thread_.join();
}

void UsageArming::request(Request request) {
  {
    const std::lock_guard lock(mutex_);
    const Key key(request.early, request.cgroup);
    const bool fresh = requests_.insert_or_assign(key, std::move(request)).second;
    if (fresh) (key.first ? early_ : thresholds_).push_back(key);
  }
  wanted_.notify_one();
}

std::vector<UsageArming::Answer> UsageArming::take_answers() {
  const std::lock_guard lock(mutex_);
  return std::exchange(answers_, {});
}

void UsageArming::run() {
  kernel::use_service_priority();
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [&] { return stopping_ || !requests_.empty(); });
    if (stopping_) return;
    std::deque<Key>& queue = thresholds_.empty() ? early_ : thresholds_;
    const Request request = std::move(requests_.extract(queue.front()).mapped());
    queue.pop_front();
    lock.unlock();
    auto event = kernel::register_usage_event(*request.files, request.line);
    lock.lock();
    answers_.push_back({request.cgroup, request.early, request.line, std::move(event)});
    lock.unlock();
    // The loop takes this CPU when it wakes, and would then wait for a lock of this thread. Without
    // real-time priority that takes as long as the other work of the machine allows.
    ::eventfd_write(done_, 1);
    lock.lock();
  }
}

}  // namespace forestall::sources
