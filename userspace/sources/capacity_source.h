// SPDX-License-Identifier: Apache-2.0
// Wake source for what no kernel event reports: free space, free inodes, tasks, free swap. It reads
// them on held descriptors, and sleeps for as long as no line can be reached.
//
// Sleep of each line = headroom / max(fastest recent fill rate, fastest possible rate), between 10
// ms and 10 s. It wakes the loop only if a line changed state since the last evaluation: newly
// crossed or newly recovered. A recovery matters too: it restarts the grace period of a soft
// threshold and eventually clears a condition.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/held_file.h"
#include "model/capacity_line.h"
#include "sources/filesystem_reader.h"
#include "sources/source.h"
#include "sources/task_reader.h"

namespace forestall::sources {

// The highest planned rate of use per second: 2 GiB (a fast disk; neither writes through the page
// cache nor swapping out last at a higher rate), 200 000 inodes, 30 000 tasks for each CPU (a fork
// takes some 30 µs).
[[nodiscard]] std::int64_t possible_use_rate(Signal signal, unsigned cpus);
// The formula above. Without headroom it returns the shortest sleep. REQUIRES: rate > 0.
[[nodiscard]] Duration capacity_interval(std::int64_t headroom, std::int64_t rate);

class CapacitySource final : public Source {
 public:
  // The readers must outlive the source; they are read from the loop's thread.
  static Result<std::unique_ptr<CapacitySource>> create(const FilesystemReader& filesystems,
                                                        const TaskReader& tasks,
                                                        const std::string& proc = "/proc");

  [[nodiscard]] Feature feature() const override { return Feature::poll; }
  // A timerfd set to the next read.
  [[nodiscard]] int fd() const override { return timer_.get(); }
  // Ignores memory lines; this source takes its lines from watch().
  Result<std::vector<std::string>> arm(std::span<const Line>, MonotonicTime) override {
    return std::vector<std::string>();
  }
  // Replaces the watched lines. Called after every observation.
  void watch(std::span<const CapacityLine> lines, MonotonicTime now) override;
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override;

  // Length of the current sleep; zero when no line is watched.
  [[nodiscard]] Duration interval() const { return interval_; }

 private:
  // State of one signal.
  struct Level {
    std::optional<std::int64_t> available;  // as last read, here or by the loop
    MonotonicTime at;
    std::int64_t rate = 0;             // per second; the fastest recent or possible
    std::optional<std::int64_t> seen;  // fastest since the last watch()
  };
  struct Watch {
    CapacityLine line;
    bool met = false;  // at the loop's last evaluation
    MonotonicTime due;
  };
  CapacitySource(const FilesystemReader& filesystems, const TaskReader& tasks,
                 kernel::HeldFile meminfo, UniqueFd timer);
  [[nodiscard]] Level& level(Signal signal) { return levels_[static_cast<std::size_t>(signal)]; }
  // Nullopt if this source does not read the signal, or the read fails.
  [[nodiscard]] std::optional<std::int64_t> evaluate(Signal signal, MonotonicTime now);
  [[nodiscard]] std::optional<std::int64_t> read_tasks(MonotonicTime now);
  [[nodiscard]] std::optional<std::int64_t> read_filesystem(Signal signal, MonotonicTime now);
  [[nodiscard]] std::optional<std::int64_t> read_swap();
  void update_rate(Signal signal, std::int64_t available, MonotonicTime now);
  void forget_rates();
  [[nodiscard]] Duration sleep_of(const Watch& watch, std::int64_t available);
  void set_timer(MonotonicTime now);

  const FilesystemReader& filesystems_;
  const TaskReader& tasks_;
  kernel::HeldFile meminfo_;
  UniqueFd timer_;
  unsigned cpus_;
  std::array<Level, kSignals.size()> levels_;
  std::vector<Watch> watches_;
  Duration interval_{0};
  std::string buffer_;             // of meminfo_
  std::vector<SourceNote> notes_;  // of one read; the observer reports the same ones
};

}  // namespace forestall::sources
