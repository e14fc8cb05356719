// SPDX-License-Identifier: Apache-2.0
// Wake source for what no kernel event tells: free space, free inodes, tasks. Reads them on held
// descriptors, and sleeps for as long as no line can be reached.
//
// Sleep of each line = headroom / max(fastest fill rate seen of late, fastest possible), between
// 10 ms and 10 s. It wakes the loop only with news: a line is crossed that the loop did not find
// met, or is no longer met that it did. A recovery is news, too: it begins the grace of a soft
// threshold anew and, in time, ends a condition.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/capacity_line.h"
#include "sources/filesystem_reader.h"
#include "sources/source.h"
#include "sources/task_reader.h"

namespace forestall::sources {

// What can be used up a second, at most, as far as anybody plans for it: 2 GiB (a fast disk; the
// page cache lets nobody reserve space faster for long), 200 000 inodes, 30 000 tasks for each CPU
// (a fork takes some 30 µs).
[[nodiscard]] std::int64_t possible_use_rate(Signal signal, unsigned cpus);
// The formula above; no headroom gives the shortest sleep. REQUIRES: rate > 0.
[[nodiscard]] Duration capacity_interval(std::int64_t headroom, std::int64_t rate);

class CapacitySource final : public Source {
 public:
  // The readers must outlive the source; they are read from the loop's thread.
  static Result<std::unique_ptr<CapacitySource>> create(const FilesystemReader& filesystems,
                                                        const TaskReader& tasks);

  [[nodiscard]] Feature feature() const override { return Feature::poll; }
  // A timerfd set to the next look.
  [[nodiscard]] int fd() const override { return timer_.get(); }
  // Lines of memory are nothing for this source: it takes its own by watch().
  Result<std::vector<std::string>> arm(std::span<const Line>, MonotonicTime) override {
    return std::vector<std::string>();
  }
  // Watch these lines from now on instead of the previous ones. Called after every observation.
  void watch(std::span<const CapacityLine> lines, MonotonicTime now) override;
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override;

  // Length of the sleep last set; zero when nothing is watched.
  [[nodiscard]] Duration interval() const { return interval_; }

 private:
  // What is known of one signal.
  struct Level {
    std::optional<std::int64_t> available;  // as last read, here or by the loop
    MonotonicTime at;
    std::int64_t rate = 0;             // a second; the fastest seen of late or possible
    std::optional<std::int64_t> seen;  // fastest since the last watch()
  };
  struct Watch {
    CapacityLine line;
    bool met = false;  // as the loop knows it
    MonotonicTime due;
  };
  CapacitySource(const FilesystemReader& filesystems, const TaskReader& tasks, UniqueFd timer);
  [[nodiscard]] Level& level(Signal signal) { return levels_[static_cast<std::size_t>(signal)]; }
  // Nothing when the signal is none of this source's, or cannot be read.
  [[nodiscard]] std::optional<std::int64_t> look(Signal signal, MonotonicTime now);
  void learn(Signal signal, std::int64_t available, MonotonicTime now);
  void forget_rates();
  [[nodiscard]] Duration sleep_of(const Watch& watch, std::int64_t available);
  void set_timer(MonotonicTime now);

  const FilesystemReader& filesystems_;
  const TaskReader& tasks_;
  UniqueFd timer_;
  unsigned cpus_;
  std::array<Level, kSignals.size()> levels_;
  std::vector<Watch> watches_;
  Duration interval_{0};
  std::vector<SourceNote> notes_;  // of a look; the observer tells the same ones
};

}  // namespace forestall::sources
