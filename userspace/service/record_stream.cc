// SPDX-License-Identifier: Apache-2.0
#include "service/record_stream.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/start_thread.h"
#include "messages/convert.h"
#include "messages/json.h"

namespace forestall::service {

namespace {

using messages::to_proto;

// Its outcome may follow minutes later.
bool has_grace(const Decision& decision) {
  return std::ranges::any_of(decision.evictions, [](const Eviction& eviction) {
    return !eviction.at_once && eviction.grace > Duration::zero();
  });
}

}  // namespace

RecordStream::RecordStream(exports::Log& out, std::function<void()> on_start)
    : out_(out), changed_(::eventfd(0, EFD_CLOEXEC)) {
  if (!changed_) return;
  auto thread = start_thread("records", [this, start = std::move(on_start)] {
    start();
    serve();
  });
  if (!thread) return;
  thread_ = std::move(*thread);
  pthread_setname_np(thread_.native_handle(), "records");
}

RecordStream::~RecordStream() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  ::eventfd_write(changed_.get(), 1);
  thread_.join();
}

void RecordStream::serve() {
  while (!stopping_) {
    eventfd_t ignored = 0;
    ::eventfd_read(changed_.get(), &ignored);
    write_waiting();
  }
  write_waiting();  // nothing is put any more
}

void RecordStream::write_waiting() {
  for (;;) {
    Record next;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    write_now(next);
  }
}

bool RecordStream::put(const Record& record) {
  if (!thread_.joinable()) return false;
  Record copy = record;  // before the lock is taken
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= kWaitingMax) return false;
  waiting_.push_back(std::move(copy));
  return true;
}

bool RecordStream::takes(const Record& record) {
  // The decision of a kernel kill is the last one before it, and has its own record.
  if (record.oom_kill || record.decision.action != Action::kill || record.outcome) return true;
  return has_grace(record.decision);
}

void RecordStream::write(const Record& record) {
  if (!takes(record)) return;
  if (!put(record)) return write_now(record);
  ::eventfd_write(changed_.get(), 1);
}

void RecordStream::write_now(const Record& record) {
  out_.write_text(exports::LogLevel::info,
                  messages::to_json(to_proto(record), messages::JsonStyle::line));
}

void RecordStream::warm_up() {
  Record record;
  record.decision.evidence.emplace_back();
  record.decision.considered.emplace_back();
  record.decision.evictions.emplace_back();
  record.observation.watched.emplace_back();
  record.observation.workloads.emplace().emplace_back();
  record.outcome.emplace().attempts.emplace_back();
  (void)messages::to_json(to_proto(record), messages::JsonStyle::line);
}

}  // namespace forestall::service
