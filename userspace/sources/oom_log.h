// SPDX-License-Identifier: Apache-2.0
// OOM kills from the kernel's log: the only source without BPF, and the only one that names the
// constraint.
//
// Its timestamps are local_clock(), which NTP does not adjust: it drifts from CLOCK_MONOTONIC, by
// seconds over months. The offset is measured on records that are read as they arrive, so a
// reported time is exact to about the wake-up latency of the loop, and never later than `now`.
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

// Converts timestamps of the kernel's log to CLOCK_MONOTONIC.
class LogClock {
 public:
  // Converts the timestamp `logged` of a record read at `now`.
  [[nodiscard]] MonotonicTime to_monotonic(Duration logged, MonotonicTime now);

 private:
  // The smallest CLOCK_MONOTONIC minus local_clock() seen; larger values include read delay.
  std::optional<Duration> offset_;
  MonotonicTime learned_;
};

class OomLog final : public Source {
 public:
  // Opens the log at its end: earlier records are ignored. EPERM without CAP_SYSLOG where
  // kernel.dmesg_restrict is set.
  static Result<std::unique_ptr<OomLog>> open(const std::string& path = "/dev/kmsg");
  // On a non-blocking descriptor that returns one record per read().
  explicit OomLog(UniqueFd log);

  [[nodiscard]] Feature feature() const override { return Feature::oom_log; }
  [[nodiscard]] int fd() const override { return log_.get(); }
  // There are no lines to watch.
  Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime now) override;
  // Reads at most kRecordsMax records: a dump lists every process of the node, and the loop must
  // continue. The descriptor stays readable for the rest.
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override;
  // The kills of all drains since the last call.
  [[nodiscard]] std::vector<OomKillEvent> take_kills() override;

  // Records that were overwritten before they were read.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

  static constexpr std::size_t kRecordsMax = 512;
  // Limit of kills that wait for take_kills(); further ones are counted as lost.
  static constexpr std::size_t kKillsMax = 4096;

 private:
  void take(std::string_view record, bool swapless, MonotonicTime now, std::vector<Wake>& wakes);

  UniqueFd log_;
  OomLogText text_;
  LogClock clock_;
  std::optional<std::uint64_t> next_sequence_;
  std::uint64_t lost_ = 0;
  std::vector<OomKillEvent> kills_;
  std::vector<char> buffer_;
};

}  // namespace forestall::sources
