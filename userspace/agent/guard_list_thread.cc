// SPDX-License-Identifier: Apache-2.0
#include "agent/guard_list_thread.h"

#include <utility>

#include "kernel/scheduling.h"

namespace forestall::agent {
namespace {

class DestroyJob final : public GuardListJob {
 public:
  explicit DestroyJob(std::shared_ptr<const void> garbage) : garbage_(std::move(garbage)) {}

 protected:
  void run() override { garbage_.reset(); }

 private:
  std::shared_ptr<const void> garbage_;
};

}  // namespace

// The loop frees what this thread allocated. A thread of ordinary priority that is preempted with
// the allocator's lock would make it wait.
Result<std::unique_ptr<GuardListThread>> GuardListThread::create(const Clock& clock,
                                                                 exports::LoopCounts& counts) {
  std::unique_ptr<GuardListThread> made(new GuardListThread(clock, counts));
  made->thread_ = TRY(base::JobThread::create("guard-lists", [self = made.get()] {
    kernel::use_service_priority();
    self->running_->run();
  }));
  return made;
}

GuardListThread::~GuardListThread() {
  if (running_) running_->cancel();
}

void GuardListThread::start(std::shared_ptr<GuardListJob> job) {
  std::erase_if(waiting_, [](const auto& each) { return each->cancelled(); });
  waiting_.push_back(std::move(job));
  if (!running_) start_next();
}

void GuardListThread::destroy(std::shared_ptr<const void> garbage) {
  start(std::make_shared<DestroyJob>(std::move(garbage)));
}

void GuardListThread::start_next() {
  while (!waiting_.empty() && waiting_.front()->cancelled()) waiting_.pop_front();
  if (waiting_.empty()) return;
  running_ = std::move(waiting_.front());
  waiting_.pop_front();
  since_ = clock_.now();
  counts_.guard_lists_since_ns = to_ns(since_);
  static_cast<void>(thread_->start());  // idle: nothing was running
}

void GuardListThread::collect() {
  if (!running_ || thread_->running() || !thread_->finish()) return;
  const auto job = std::exchange(running_, nullptr);
  if (!job->cancelled()) job->done_ = true;
  late_ = false;
  counts_.guard_lists_since_ns = 0;
  start_next();
}

std::optional<MonotonicTime> GuardListThread::late_due() const {
  return running_ && !late_ ? std::optional(since_ + kLateAfter) : std::nullopt;
}

bool GuardListThread::check_late() {
  if (const auto due = late_due(); due && *due <= clock_.now()) {
    late_ = true;
    ++counts_.guard_lists_late;
  }
  return late_;
}

}  // namespace forestall::agent
