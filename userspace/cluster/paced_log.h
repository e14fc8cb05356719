// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "exports/log.h"

namespace forestall::cluster {

// Keeps lines while the log has no room. The log drops its oldest lines then, and a plan may have
// more than 100,000. Thread rule: one thread.
class PacedLog {
 public:
  // Some 500 bytes each.
  static constexpr std::size_t kWaitingMax = 200'000;

  // `log` outlives this.
  explicit PacedLog(exports::Log& log) : log_(log) {}

  void write(exports::LogLevel level, exports::LogLine line);
  // Writes what waits, as far as the log has room.
  void advance();
  // Whether no line waits.
  [[nodiscard]] bool done() const { return waiting_.empty(); }
  // Lines that were lost, here and in the log.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_ + log_.dropped(); }

 private:
  exports::Log& log_;
  std::deque<std::pair<exports::LogLevel, exports::LogLine>> waiting_;
  std::uint64_t dropped_ = 0;
};

}  // namespace forestall::cluster
