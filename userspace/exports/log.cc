// SPDX-License-Identifier: Apache-2.0
#include "exports/log.h"

#include <poll.h>
#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/eventfd.h>

#include "base/start_thread.h"
#include "base/unique_fd.h"

namespace forestall::exports {
namespace {

// spdlog makes the whole queue at start, 400 bytes a line, so that memory is locked for it: with
// this many, 400 KiB. A kill takes two or three lines.
constexpr std::size_t kQueueLines = 1024;
constexpr int kFlushPatienceMs = 2000;

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::shared_ptr<spdlog::sinks::sink> make_sink(Log::Stream stream) {
  if (stream == Log::Stream::standard_output) {
    return std::make_shared<spdlog::sinks::stdout_sink_mt>();
  }
  return std::make_shared<spdlog::sinks::stderr_sink_mt>();
}

}  // namespace

Log::Log(Stream stream, bool stamped, LogLevel least, std::function<void()> on_start)
    : pool_(std::make_shared<spdlog::details::thread_pool>(kQueueLines, 1, std::move(on_start))),
      logger_(std::make_shared<spdlog::async_logger>(
          "forestall", make_sink(stream), pool_, spdlog::async_overflow_policy::overrun_oldest)) {
  logger_->set_pattern(stamped ? "%Y-%m-%dT%H:%M:%S.%fZ %-7l %v" : "%v",
                       spdlog::pattern_time_type::utc);
  logger_->set_level(to_spdlog(least));
  logger_->flush_on(spdlog::level::debug);
}

Log::~Log() {
  // The pool's destructor waits for its thread without bound, so it gets a thread that may be left
  // behind, and this one waits for that with a bound.
  const UniqueFd done(eventfd(0, EFD_CLOEXEC));
  // The pool goes first: queued lines hold on to the logger, so that its last owner is this thread.
  auto last = start_thread("forestall-log", [logger = std::move(logger_), pool = std::move(pool_),
                                             written = UniqueFd(dup(done.get()))]() mutable {
    pool.reset();
    logger.reset();
    eventfd_write(written.get(), 1);
  });
  // Where there may be no more threads, this one has waited for the pool already.
  if (!last) return;
  last->detach();
  pollfd written{done.get(), POLLIN, 0};
  poll(&written, 1, kFlushPatienceMs);
}

bool Log::writes(LogLevel level) const {
  return logger_->should_log(to_spdlog(level));
}

void Log::write_text(LogLevel level, const std::string& text) {
  logger_->log(to_spdlog(level), text);
}

std::uint64_t Log::dropped() const {
  return pool_->overrun_counter();
}

}  // namespace forestall::exports
