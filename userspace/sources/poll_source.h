// SPDX-License-Identifier: Apache-2.0
// Wake source without any help from the kernel: reads /proc/vmstat and usage files on held
// descriptors, and sleeps for as long as no line can be reached.
//
// Sleep of each line = headroom / max(fastest fill rate seen of late, fastest possible), between
// 1 ms and 10 s: the farther the line, the rarer its file is read. It wakes the loop only when its
// reading says that a line is crossed, once: while the line stays met the loop looks on its own,
// and only 16 MiB more than was told is told again.
//
// A warning line is told once it is seen to be passed, until the next arm(). It is no line to sleep
// for, since somebody hovering above it would be read every millisecond for nothing: headroom is
// counted to half way between it and the threshold, so that the warning comes with at least half of
// its lead.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/held_file.h"
#include "sources/source.h"

namespace forestall::sources {

// Bytes a second that `cpus` CPUs can fault in: 2 GiB/s each (2.05 µs per 4 KiB fault measured,
// design notes ARCHITECTURE.md, Measured), as long as memory bandwidth lets them: 16 GiB/s in all.
[[nodiscard]] std::int64_t possible_fill_rate(unsigned cpus);
// The formula above; a crossed line (headroom <= 0) gives the shortest sleep. REQUIRES: rate > 0.
[[nodiscard]] Duration interval_for(Bytes headroom, std::int64_t bytes_per_second);

class PollSource final : public Source {
 public:
  // Refused when vmstat lacks a counter of the formula. `tree` must outlive the source.
  static Result<std::unique_ptr<Source>> create(const kernel::CgroupTree& tree,
                                                const std::string& proc = "/proc");
  ~PollSource() override;

  [[nodiscard]] Feature feature() const override { return Feature::poll; }
  // A timerfd set to the next look, so the loop needs nothing special.
  [[nodiscard]] int fd() const override { return timer_.get(); }
  Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime now) override;
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override;

  // Length of the sleep last set; zero when nothing is armed.
  [[nodiscard]] Duration interval() const { return interval_; }

 private:
  struct Reading;
  struct Watch;
  PollSource(const kernel::CgroupTree& tree, kernel::HeldFile vmstat, kernel::HeldFile meminfo,
             UniqueFd timer);
  [[nodiscard]] Watch* find(const Line& line);
  Result<void> arm_line(const Line& line, MonotonicTime now);
  // When to look after the loop found `headroom`, and whether it knows that the line is met.
  void schedule(Watch& watch, Bytes headroom, MonotonicTime now);
  [[nodiscard]] Duration sleep_of(const Watch& watch, Bytes headroom) const;
  // The working set, or usage when that is at most the line already; nothing if unreadable.
  [[nodiscard]] std::optional<Reading> look(const Watch& watch);
  [[nodiscard]] std::optional<Bytes> node_working_set();
  [[nodiscard]] std::optional<Bytes> read_usage(const kernel::HeldFile& file);
  void learn_rate(Watch& watch, const Reading& reading, MonotonicTime now);
  // One burst must not shorten every sleep for good: each arm() gives an eighth back, down to what
  // has been seen since the last one or is possible.
  void forget_rate();
  // Wakes if the reading is news; sets when to look next.
  void judge(Watch& watch, const Reading& reading, MonotonicTime now, std::vector<Wake>& wakes);
  void set_timer(MonotonicTime now);  // to the first look due

  const kernel::CgroupTree& tree_;
  kernel::HeldFile vmstat_;
  kernel::HeldFile meminfo_;
  UniqueFd timer_;
  std::vector<std::unique_ptr<Watch>> watches_;
  std::int64_t possible_rate_;             // bytes a second, as the two below
  std::int64_t fill_rate_;                 // fastest seen of late or possible
  std::optional<std::int64_t> seen_rate_;  // fastest since the last arm()
  Duration interval_{0};
  std::string buffer_;
};

}  // namespace forestall::sources
