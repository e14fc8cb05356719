// SPDX-License-Identifier: Apache-2.0
// The agent's log: asynchronous and bounded, because a disk or a full pipe blocks exactly when
// this program must act. When the queue is full the oldest line is dropped, and counted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "exports/log_line.h"

namespace spdlog {
class logger;
namespace details {
class thread_pool;
}
}  // namespace spdlog

namespace forestall::exports {

enum class LogLevel : std::uint8_t { debug, info, warning, error };

// Lines written to one stream by one background thread. Any thread may write.
class Log {
 public:
  enum class Stream : std::uint8_t { standard_error, standard_output };
  // `stamped` prefixes time and level; without it lines go out as they are (JSON records).
  // `on_start` runs once in the writing thread.
  Log(
      Stream stream, bool stamped, LogLevel least, std::function<void()> on_start = [] {});
  // Writes out what is queued, for at most two seconds: a reader that stopped reading must not keep
  // the program from ending. What is left then is lost, and so is the writing thread.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Whether a line of this level would be written: ask before making a costly one.
  [[nodiscard]] bool writes(LogLevel level) const;
  void write(LogLevel level, const LogLine& line) { write_text(level, line.text()); }
  void write_text(LogLevel level, const std::string& text);
  // Lines lost because the queue was full.
  [[nodiscard]] std::uint64_t dropped() const;

 private:
  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace forestall::exports
