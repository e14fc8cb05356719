// SPDX-License-Identifier: Apache-2.0
// Measures the disk usage of pods on its own thread: a walk over many files is slow and the loop
// must not wait. The caller requests a walk; a descriptor becomes readable when it ends.
//
// The thread has the lowest ordinary priority for CPU (nice 19) and disk (best-effort, level 7).
// The idle class is wrong: a disk that fills is never idle, and the walk is needed at that time
// (block/mq-deadline.c delays such a request by up to 10 s).
//
// A thread of this priority may lose the CPU at any point, so the loop shares no lock with it
// (base/job_thread.h), including the lock of the allocator's arena: each side frees only what it
// allocated. The request belongs to the loop and does not change during the walk. The result
// belongs to the walker; the loop copies it after the walk.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/job_thread.h"
#include "base/result.h"
#include "model/config.h"
#include "model/observation.h"

namespace forestall::sources {

// Thread rule: all calls come from the loop's thread.
class DiskWalker {
 public:
  static Result<std::unique_ptr<DiskWalker>> create();
  DiskWalker(const DiskWalker&) = delete;
  // Cancels a running walk and waits until it stops.
  ~DiskWalker();

  // Readable once a walk has ended, until collect().
  [[nodiscard]] int fd() const { return thread_->fd(); }

  // Starts a walk over these pods, unless one is running or the last one is at most `age_max` old.
  // Returns whether a walk is running.
  bool request_walk(const FilesystemPlaces& places, std::vector<std::string> uids,
                    MonotonicTime now, Duration age_max = kAgeMax);
  // Stops the running walk. The pods measured so far are merged into the last result.
  void cancel();
  // Takes the result of a finished walk; false if none has finished.
  bool collect(MonotonicTime now);

  // When the last uncancelled walk ended. Its figures are older by at most the length of that walk.
  // Nullopt: no such walk yet.
  [[nodiscard]] std::optional<MonotonicTime> ended() const { return ended_at_; }
  [[nodiscard]] bool fresh(MonotonicTime now, Duration age_max = kAgeMax) const {
    return ended_at_ && now - *ended_at_ <= age_max;
  }
  // Whether the last uncancelled walk began at or after `time`.
  [[nodiscard]] bool began_since(MonotonicTime time) const {
    return began_at_ && *began_at_ >= time;
  }
  // Null if the pod was not measured.
  [[nodiscard]] const PodStatistics* find(const std::string& uid) const;
  [[nodiscard]] const std::vector<SourceNote>& notes() const { return found_.notes; }

  // Kubelet's own figures are up to 60 s old for volumes and 10 s for the rest.
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

  // Owned by the loop.
  bool walking_ = false;                   // until the result was collected
  MonotonicTime requested_at_;             // start of the running or last walk
  std::optional<MonotonicTime> began_at_;  // the last uncancelled walk
  std::optional<MonotonicTime> ended_at_;
  Found found_;
  // The loop writes it before a walk; the walk reads it.
  Request request_;
  // Owned by the walk; the loop reads it between two walks.
  Found walked_;
  std::atomic<bool> cancelled_{false};
  std::unique_ptr<base::JobThread> thread_;  // last: its job uses all members above
};

}  // namespace forestall::sources
