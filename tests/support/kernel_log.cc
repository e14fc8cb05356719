// SPDX-License-Identifier: Apache-2.0
#include "support/kernel_log.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <stdexcept>

#include "base/clock.h"
#include "support/child.h"

namespace forestall::test {
namespace {

// The text between `before` and the next character of `ends`.
std::optional<std::string_view> between(std::string_view text, std::string_view before,
                                        std::string_view ends) {
  const auto at = text.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + before.size());
  return text.substr(0, text.find_first_of(ends));
}

pid_t number(std::optional<std::string_view> text) {
  pid_t pid = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), pid);
  return pid;
}

}  // namespace

std::optional<OomLine> parse_oom_line(std::string_view message) {
  OomLine line;
  line.text = message;
  if (message.starts_with("oom-kill:constraint=")) {
    line.kind = OomLine::Kind::chosen;
    line.constraint = between(message, "constraint=", ",").value_or("");
    line.domain = between(message, "oom_memcg=", ",").value_or("");
    line.path = between(message, "task_memcg=", ",").value_or("");
    line.pid = number(between(message, ",pid=", ","));
    // Another record split the line. "Killed process" names the victim as well.
    if (line.pid == 0) return std::nullopt;
    return line;
  }
  if (const auto killed = between(message, ": Killed process ", " ")) {
    line.pid = number(killed);
    return line;
  }
  if (const auto whole = between(message, "Tasks in ", " ");
      whole && message.find("memory.oom.group set") != std::string_view::npos) {
    line.kind = OomLine::Kind::whole;
    line.path = *whole;
    return line;
  }
  if (message.find("no killable processes") != std::string_view::npos) {
    line.kind = OomLine::Kind::no_victim;
    return line;
  }
  return std::nullopt;
}

KernelLog::KernelLog() : fd_(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (!fd_ || ::lseek(fd_.get(), 0, SEEK_END) < 0) throw std::runtime_error("open /dev/kmsg");
}

std::vector<OomLine> KernelLog::take() {
  std::vector<OomLine> lines;
  std::array<char, 8192> record{};  // the longest record (CONSOLE_EXT_LOG_MAX)
  for (;;) {
    const ssize_t size = ::read(fd_.get(), record.data(), record.size());
    if (size < 0 && errno == EAGAIN) return lines;
    if (size < 0) throw std::runtime_error("the kernel overwrote log records before the read");
    // "priority,sequence,time,flags;message\n KEY=value…"
    std::string_view text(record.data(), static_cast<std::size_t>(size));
    text.remove_prefix(text.find(';') + 1);
    if (auto line = parse_oom_line(text.substr(0, text.find('\n')))) {
      lines.push_back(std::move(*line));
    }
  }
}

std::vector<OomLine> KernelLog::wait() {
  const MonotonicTime deadline = SystemClock().now() + kPatience;
  for (;;) {
    std::vector<OomLine> lines = take();
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SystemClock().now());
    if (!lines.empty() || left.count() <= 0) return lines;
    pollfd readable{fd_.get(), POLLIN, 0};
    ::poll(&readable, 1, static_cast<int>(left.count()));
  }
}

}  // namespace forestall::test
