// SPDX-License-Identifier: Apache-2.0
// Records as JSON, one per line, for `forestall agent --output json`.
//
// A record of a decision on 1,000 candidates takes some 10 ms to serialize, in which the next
// crossing would wait. A thread of its own does it; the loop makes a copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "base/priority_mutex.h"
#include "base/unique_fd.h"
#include "exports/log.h"
#include "exports/sink.h"

namespace forestall::service {

// A kill is written with its outcome, and a kill with a grace period also when it begins; every
// other decision is written at once.
class RecordStream final : public exports::RecordSink {
 public:
  // If more wait, or without a thread, the caller serializes a record itself: none is lost, and the
  // order may differ from that of the sequence numbers.
  static constexpr std::size_t kWaitingMax = 64;

  // `out` outlives this; it drops and counts lines if its reader is too slow. `on_start` runs once
  // in the thread.
  explicit RecordStream(
      exports::Log& out, std::function<void()> on_start = [] {});
  // Writes what waits.
  ~RecordStream() override;
  void write(const Record& record) override;
  // Whether a record is written now; false: a complete record of the same kill follows.
  [[nodiscard]] static bool takes(const Record& record);
  // Serializes a record and discards the text, so that the memory for it is allocated.
  static void warm_up();

 private:
  void serve();
  void write_waiting();
  [[nodiscard]] bool put(const Record& record);
  void write_now(const Record& record);

  exports::Log& out_;
  const UniqueFd changed_;  // wakes the thread
  std::atomic<bool> stopping_{false};
  base::PriorityMutex mutex_;
  std::deque<Record> waiting_;  // guarded by mutex_
  std::thread thread_;          // last: serve() uses all of the above
};

}  // namespace forestall::service
