// SPDX-License-Identifier: Apache-2.0
#include "sources/usage_arming.h"

#include <sys/eventfd.h>

#include <algorithm>

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
    const auto same = std::find_if(requests_.begin(), requests_.end(), [&](const Request& other) {
      return other.cgroup == request.cgroup && other.early == request.early;
    });
    if (same != requests_.end()) {
      *same = std::move(request);
    } else {
      requests_.push_back(std::move(request));
    }
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
    auto next = std::find_if(requests_.begin(), requests_.end(),
                             [](const Request& request) { return !request.early; });
    if (next == requests_.end()) next = requests_.begin();
    const Request request = std::move(*next);
    requests_.erase(next);
    lock.unlock();
    auto event = kernel::register_usage_event(*request.files, request.line);
    lock.lock();
    answers_.push_back({request.cgroup, request.early, request.line, std::move(event)});
    ::eventfd_write(done_, 1);
  }
}

}  // namespace forestall::sources
