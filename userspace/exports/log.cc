// SPDX-License-Identifier: Apache-2.0
#include "exports/log.h"

#include <poll.h>
#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string_view>

#include "base/start_thread.h"
#include "base/unique_fd.h"

namespace forestall::exports {
namespace {

// spdlog allocates the whole queue at start, 400 bytes per line, so that its memory is locked: 400
// KiB here. A kill takes two or three lines.
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

// Writes directly to the descriptor. spdlog's own sinks of the standard streams share one lock, so
// that a stopped reader of one stream blocks the other. They also hold the stdio lock during the
// write, which blocks exit().
class DescriptorSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit DescriptorSink(int fd) : fd_(fd) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    write_all({line.data(), line.size()});
  }
  void flush_() override {}

  // A failed write is dropped: there is no other place to report it.
  void write_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t size = ::write(fd_, bytes.data(), bytes.size());
      if (size > 0) bytes.remove_prefix(static_cast<std::size_t>(size));
      if (size >= 0 || errno == EINTR) continue;
      pollfd room{fd_, POLLOUT, 0};
      if (errno != EAGAIN || (poll(&room, 1, -1) < 0 && errno != EINTR)) return;
    }
  }

  const int fd_;
};

std::shared_ptr<spdlog::sinks::sink> make_sink(Log::Stream stream) {
  const bool output = stream == Log::Stream::standard_output;
  return std::make_shared<DescriptorSink>(output ? STDOUT_FILENO : STDERR_FILENO);
}

const char* pattern_of(LogFormat format) {
  switch (format) {
    case LogFormat::text: return "%Y-%m-%dT%H:%M:%S.%eZ %-7l %v";
    case LogFormat::logfmt: return "%Y-%m-%dT%H:%M:%S.%fZ %-7l %v";
    case LogFormat::json: return R"({"time":"%Y-%m-%dT%H:%M:%S.%fZ","level":"%l",%v})";
  }
  return "%v";
}

}  // namespace

LogFormat default_log_format() {
  return isatty(STDERR_FILENO) == 1 ? LogFormat::text : LogFormat::logfmt;
}

Log::Log(Stream stream, bool stamped, LogLevel least, std::function<void()> on_start,
         LogFormat format)
    : format_(format),
      pool_(std::make_shared<spdlog::details::thread_pool>(kQueueLines, 1, std::move(on_start))),
      logger_(std::make_shared<spdlog::async_logger>(
          "forestall", make_sink(stream), pool_, spdlog::async_overflow_policy::overrun_oldest)) {
  logger_->set_pattern(stamped ? pattern_of(format) : "%v", spdlog::pattern_time_type::utc);
  logger_->set_level(to_spdlog(least));
  logger_->flush_on(spdlog::level::debug);
}

Log::~Log() {
  // The pool's destructor waits for its thread without a limit. A separate thread, which may be
  // abandoned, therefore destroys the pool, and this one waits for it with a limit.
  const UniqueFd done(eventfd(0, EFD_CLOEXEC));
  // The pool is destroyed first: queued lines keep the logger alive, so this thread is its last
  // owner.
  auto last = start_thread("forestall-log", [logger = std::move(logger_), pool = std::move(pool_),
                                             written = UniqueFd(dup(done.get()))]() mutable {
    pool.reset();
    logger.reset();
    eventfd_write(written.get(), 1);
  });
  // Without another thread, the destruction of the pool already happened here.
  if (!last) return;
  last->detach();
  pollfd written{done.get(), POLLIN, 0};
  poll(&written, 1, kFlushPatienceMs);
}

bool Log::writes(LogLevel level) const {
  return logger_->should_log(to_spdlog(level));
}

void Log::write(LogLevel level, const LogLine& line) {
  if (!writes(level)) return;
  switch (format_) {
    case LogFormat::text: return write_text(level, line.plain());
    case LogFormat::logfmt: return write_text(level, line.text());
    case LogFormat::json: return write_text(level, line.json_members());
  }
}

void Log::write_text(LogLevel level, const std::string& text) {
  logger_->log(to_spdlog(level), text);
}

bool Log::has_room() const {
  return pool_->queue_size() < kQueueLines / 2;
}

std::uint64_t Log::dropped() const {
  return pool_->overrun_counter();
}

}  // namespace forestall::exports
