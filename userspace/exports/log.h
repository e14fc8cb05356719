// SPDX-License-Identifier: Apache-2.0
// The agent's log: asynchronous and bounded, because a disk or a full pipe can block at the time
// when the agent must act. If the queue is full, the oldest line is dropped and counted.
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

// For people, or for programs.
enum class LogFormat : std::uint8_t { text, logfmt, json };

// Text if standard error is a terminal, else logfmt.
[[nodiscard]] LogFormat default_log_format();

// Lines written to one stream by one background thread. Any thread may write.
class Log {
 public:
  enum class Stream : std::uint8_t { standard_error, standard_output };
  // `stamped` adds time and level to each line; without it, lines are written unchanged (JSON
  // records). `on_start` runs once in the writing thread.
  Log(
      Stream stream, bool stamped, LogLevel least, std::function<void()> on_start = [] {},
      LogFormat format = LogFormat::logfmt);
  // Writes all queued lines, for at most two seconds: a stopped reader must not keep the program
  // from ending. The remaining lines are lost, and the writing thread is abandoned.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Whether a line of this level would be written; check before building an expensive line.
  [[nodiscard]] bool writes(LogLevel level) const;
  [[nodiscard]] LogFormat format() const { return format_; }
  void write(LogLevel level, const LogLine& line);
  // Unchanged in every format. REQUIRES: not stamped as JSON.
  void write_text(LogLevel level, const std::string& text);
  // Whether the queue is not full by far. For what can wait.
  [[nodiscard]] bool has_room() const;
  // Lines lost because the queue was full.
  [[nodiscard]] std::uint64_t dropped() const;

 private:
  const LogFormat format_;
  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace forestall::exports
