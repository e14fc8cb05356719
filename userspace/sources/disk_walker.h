// SPDX-License-Identifier: Apache-2.0
// Measures what pods occupy on disk in a thread of its own, since a walk over many files takes its
// time and the loop must not wait: ask, and a descriptor becomes readable when it is done.
//
// The thread is of the lowest ordinary priority, for CPU (nice 19) and for the disk (best-effort,
// level 7). Not of the idle class: a disk that fills is never idle, and the walk is wanted just
// then (block/mq-deadline.c lets such a request wait for up to 10 s).
//
// A thread of such a priority may be kept from the CPU at any point, so the loop shares no lock
// with it (kernel/job_thread.h), that of the allocator's arena included: each side frees only what
// it allocated. What is asked for stays the loop's, unchanged during the walk; what was found stays
// the walker's, unread by the loop during the walk, and is copied.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "kernel/job_thread.h"
#include "model/config.h"
#include "model/observation.h"

namespace forestall::sources {

// Thread rule: all calls come from the loop's thread.
class DiskWalker {
 public:
  static Result<std::unique_ptr<DiskWalker>> create();
  DiskWalker(const DiskWalker&) = delete;
  // Cancels a walk that is under way and waits until it noticed.
  ~DiskWalker();

  // Readable once a walk has ended, until collect().
  [[nodiscard]] int fd() const { return thread_->fd(); }

  // Starts a walk over these pods, unless one is under way, or an earlier one is not older than
  // `age_max`. Returns whether one is under way now.
  bool ask(const FilesystemPlaces& places, std::vector<std::string> uids, MonotonicTime now,
           Duration age_max = kAgeMax);
  // Ends the walk that is under way: the pods that are measured already join the last result.
  void cancel();
  // Takes over the result of a walk that has ended; false when none has.
  bool collect(MonotonicTime now);

  // When the last walk that was not cancelled ended: its figures are not older than its length
  // before that. Nothing: there was none.
  [[nodiscard]] std::optional<MonotonicTime> ended() const { return ended_at_; }
  [[nodiscard]] bool fresh(MonotonicTime now, Duration age_max = kAgeMax) const {
    return ended_at_ && now - *ended_at_ <= age_max;
  }
  // Whether the last walk that was not cancelled began at that time or later.
  [[nodiscard]] bool began_since(MonotonicTime time) const {
    return began_at_ && *began_at_ >= time;
  }
  // Null for a pod that was not measured.
  [[nodiscard]] const PodStatistics* find(const std::string& uid) const;
  [[nodiscard]] const std::vector<SourceNote>& notes() const { return found_.notes; }

  // Kubelet's own figures are up to 60 s old for volumes, and 10 s for the rest.
  static constexpr Duration kAgeMax = std::chrono::seconds(10);

 private:
  struct Request {
    FilesystemPlaces places;
    std::vector<std::string> uids;
  };
  struct Found {
    std::map<std::string, PodStatistics> pods;
    std::vector<SourceNote> notes;
  };
  DiskWalker() = default;
  void walk();  // on the thread

  // The loop's.
  bool walking_ = false;                   // until the end was collected
  MonotonicTime asked_at_;                 // the walk under way, or the last
  std::optional<MonotonicTime> began_at_;  // the last that was not cancelled
  std::optional<MonotonicTime> ended_at_;
  Found found_;
  // The loop writes it before a walk, the walk reads it.
  Request request_;
  // The walk's, and the loop's to read between two of them.
  Found walked_;
  std::atomic<bool> cancelled_{false};
  std::unique_ptr<kernel::JobThread> thread_;  // last: its job uses all of the above
};

}  // namespace forestall::sources
