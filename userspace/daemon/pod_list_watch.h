// SPDX-License-Identifier: Apache-2.0
// Follows the file `podList`: reads it again when it changes, and reports when it has not been
// written for too long. A list that cannot be read leaves the last one in force; facts of a pod
// that is on no list are inferred.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "exports/log.h"
#include "model/pod.h"

namespace forestall::daemon {

using KnownPods = std::vector<std::shared_ptr<const Pod>>;

struct PodListState {
  std::string path;                      // empty: no list is configured
  std::size_t pods = 0;                  // on the list in force
  std::optional<MonotonicTime> written;  // nothing: never read
  bool stale = false;                    // written longer ago than podListMaxAge
  std::string problem;                   // why the file as it is now is not in force; empty: it is
};

// A thread of its own reads and parses. Thread rule: follow() and take() from the loop's thread.
class PodListWatch {
 public:
  // `log` outlives it.
  static Result<std::unique_ptr<PodListWatch>> start(exports::Log& log);
  PodListWatch(const PodListWatch&) = delete;
  PodListWatch& operator=(const PodListWatch&) = delete;
  ~PodListWatch();

  // The file to follow; empty: none. `max_age`: after that it is stale, because pods started since
  // may be missing on it. `in_force`: what was read from it.
  void follow(const std::string& path, Duration max_age, KnownPods in_force);
  // Polls readable when a list waits for take().
  [[nodiscard]] int fd() const { return ready_.get(); }
  // The list to use from now on; nothing: the one in force.
  [[nodiscard]] std::optional<KnownPods> take();
  // Any thread.
  [[nodiscard]] PodListState state() const;

 private:
  PodListWatch(exports::Log& log, UniqueFd events, UniqueFd reported, UniqueFd ready)
      : log_(log),
        events_(std::move(events)),
        reported_(std::move(reported)),
        ready_(std::move(ready)) {}

  // All of these on the thread.
  void run();
  void wait();
  void check();
  void watch_directory(const std::string& path);
  void read(const std::string& path, const struct stat& status);
  void offer(const std::string& path, KnownPods pods);
  void note_age();
  void note_problem(const std::string& path, const std::string& problem);

  exports::Log& log_;
  const UniqueFd events_;    // inotify
  const UniqueFd reported_;  // wakes the thread
  const UniqueFd ready_;     // wakes the loop
  std::atomic<bool> stopping_{false};
  int directory_ = -1;               // watch descriptor
  std::string watched_;              // the path that `read_` and `directory_` are of
  std::optional<struct stat> read_;  // of the file as last read
  MonotonicTime written_{};          // that file

  mutable base::PriorityMutex mutex_;
  PodListState state_;
  Duration max_age_{};
  KnownPods in_force_;
  std::optional<KnownPods> waiting_;

  std::thread thread_;  // last: uses all of the above
};

}  // namespace forestall::daemon
