// SPDX-License-Identifier: Apache-2.0
// OOM kills as the kernel's log tells them: the way without BPF, and the only one that names the
// constraint.
//
// Its times are local_clock(), which nothing steers: it strays from CLOCK_MONOTONIC by what NTP
// corrects, seconds over months. The difference is learned from records that are read as they come,
// so a time told here is exact to about the wake-up of the loop, and never later than `now`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "sources/oom_log_text.h"
#include "sources/source.h"

namespace forestall::sources {

// Turns times of the kernel's log into CLOCK_MONOTONIC.
class LogClock {
 public:
  // A record of time `logged` was read at `now`.
  [[nodiscard]] MonotonicTime to_monotonic(Duration logged, MonotonicTime now);

 private:
  // CLOCK_MONOTONIC less local_clock, as little as was ever seen: what is more was delay.
  std::optional<Duration> offset_;
  MonotonicTime learned_;
};

class OomLog final : public Source {
 public:
  // Opens the log at its end: what was told before is not ours. EPERM without CAP_SYSLOG where
  // kernel.dmesg_restrict is set.
  static Result<std::unique_ptr<OomLog>> open(const std::string& path = "/dev/kmsg");
  // On a descriptor that hands out a record per read(), without waiting.
  explicit OomLog(UniqueFd log);

  [[nodiscard]] Feature feature() const override { return Feature::oom_log; }
  [[nodiscard]] int fd() const override { return log_.get(); }
  // There are no lines to watch.
  Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime now) override;
  // At most kRecordsMax records: a dump lists each process of the node, and the loop has to go on.
  // The descriptor stays readable for the rest.
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override;
  // The kills told by all drains since the last call.
  [[nodiscard]] std::vector<OomKillSighting> take_kills() override;

  // Records that were overwritten before we read them.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

  static constexpr std::size_t kRecordsMax = 512;
  // Kills that wait for take_kills(). More than this at once are counted as lost.
  static constexpr std::size_t kKillsMax = 4096;

 private:
  void take(std::string_view record, bool swapless, MonotonicTime now, std::vector<Wake>& wakes);

  UniqueFd log_;
  OomLogText text_;
  LogClock clock_;
  std::optional<std::uint64_t> next_sequence_;
  std::uint64_t lost_ = 0;
  std::vector<OomKillSighting> kills_;
  std::vector<char> buffer_;
};

}  // namespace forestall::sources
