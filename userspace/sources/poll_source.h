// SPDX-License-Identifier: Apache-2.0
// Wake source without kernel events: reads /proc/vmstat and usage files on held descriptors, and
// sleeps for as long as no line can be reached.
//
// Sleep of each line = headroom / max(fastest recent fill rate, fastest possible rate), between 1
// ms and 10 s: a file far from its line is rarely read. A crossed line wakes the loop once. While
// the line stays met, the loop evaluates on its own; only 16 MiB of further growth wakes it again.
//
// A passed warning line is reported once until the next arm(). It does not shorten the sleep, since
// usage that hovers above it would be read every millisecond. Headroom is counted to half way
// between the warning line and the threshold, so the warning has at least half of its lead.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/held_file.h"
#include "sources/source.h"

namespace forestall::sources {

// Bytes per second that `cpus` CPUs can fault in: 2 GiB/s each (2.05 µs per 4 KiB fault measured,
// ARCHITECTURE.md, Measured), at most 16 GiB/s of memory bandwidth in total.
[[nodiscard]] std::int64_t possible_fill_rate(unsigned cpus);
// The formula above; a crossed line (headroom <= 0) gives the shortest sleep. REQUIRES: rate > 0.
[[nodiscard]] Duration interval_for(Bytes headroom, std::int64_t bytes_per_second);

class PollSource final : public Source {
 public:
  // Fails if vmstat lacks a counter of the formula. `tree` must outlive the source.
  static Result<std::unique_ptr<Source>> create(const kernel::CgroupTree& tree,
                                                const std::string& proc = "/proc");
  ~PollSource() override;

  [[nodiscard]] Feature feature() const override { return Feature::poll; }
  // A timerfd set to the next read.
  [[nodiscard]] int fd() const override { return timer_.get(); }
  Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime now) override;
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override;

  [[nodiscard]] std::vector<SourceReadings> take_crossings() override {
    return std::exchange(crossings_, {});
  }

  // Length of the current sleep; zero when no line is armed.
  [[nodiscard]] Duration interval() const { return interval_; }

 private:
  struct WorkingSetReading;
  struct Watch;
  PollSource(const kernel::CgroupTree& tree, kernel::HeldFile vmstat, kernel::HeldFile meminfo,
             UniqueFd timer);
  [[nodiscard]] Watch* find(const Line& line);
  Result<void> arm_line(const Line& line, MonotonicTime now);
  // Sets the next read after the loop found `headroom`, and whether the loop found the line met.
  void schedule(Watch& watch, Bytes headroom, MonotonicTime now);
  [[nodiscard]] Duration sleep_of(const Watch& watch, Bytes headroom) const;
  // The working set, or usage if that is already at or below the line; nullopt if unreadable.
  [[nodiscard]] std::optional<WorkingSetReading> evaluate(const Watch& watch);
  [[nodiscard]] std::optional<Bytes> node_working_set();
  [[nodiscard]] std::optional<Bytes> read_usage(const kernel::HeldFile& file);
  void update_rate(Watch& watch, const WorkingSetReading& reading, MonotonicTime now);
  // One burst must not shorten every sleep permanently: each arm() lowers the rate by an eighth,
  // down to the fastest rate since the last arm() or the fastest possible one.
  void forget_rate();
  // What a line that is met shows about its crossing.
  void take_crossing(Watch& watch);
  // Wakes the loop if the reading crosses the line or grew enough; sets the next read.
  void evaluate_watch(Watch& watch, const WorkingSetReading& reading, MonotonicTime now,
                      std::vector<Wake>& wakes);
  void set_timer(MonotonicTime now);  // to the first read due

  const kernel::CgroupTree& tree_;
  kernel::HeldFile vmstat_;
  kernel::HeldFile meminfo_;
  UniqueFd timer_;
  // By cgroup and by_meminfo: one per threshold.
  std::multimap<std::pair<CgroupId, bool>, std::unique_ptr<Watch>> watches_;
  std::int64_t possible_rate_;             // bytes per second, as the two below
  std::int64_t fill_rate_;                 // fastest recent or possible
  std::optional<std::int64_t> seen_rate_;  // fastest since the last arm()
  Duration interval_{0};
  std::vector<SourceReadings> crossings_;
  std::string buffer_;
};

}  // namespace forestall::sources
