// SPDX-License-Identifier: Apache-2.0
#include "support/kill_trace.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <stdexcept>

#include "support/temp_tree.h"

namespace forestall::test {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("trace of kills: " + what + ": " + std::string(::strerror(errno)));
}

// The directory of trace instances. tracefs is mounted only until it is open.
UniqueFd open_instances() {
  const TempTree place;
  if (::mount("tracefs", place.path().c_str(), "tracefs", 0, nullptr) != 0) fail("mount tracefs");
  UniqueFd opened(::open((place / "instances").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  ::umount2(place.path().c_str(), MNT_DETACH);
  if (!opened) fail("open instances");
  return opened;
}

std::string read_all(int fd) {
  std::string text;
  char part[4096];
  for (ssize_t got = 0; (got = ::read(fd, part, sizeof part)) > 0;) {
    text.append(part, static_cast<std::size_t>(got));
  }
  return text;
}

// The time of a line of the trace, "COMM-PID [CPU] FLAGS SECONDS.MICROSECONDS: EVENT: ...".
std::optional<MonotonicTime> time_of(const std::string& line) {
  const auto end = line.find(": signal_generate:");
  const auto dot = line.rfind('.', end);
  if (end == std::string::npos || dot == std::string::npos) return std::nullopt;
  const auto begin = line.rfind(' ', dot) + 1;
  std::int64_t seconds = 0, microseconds = 0;
  std::from_chars(line.data() + begin, line.data() + dot, seconds);
  std::from_chars(line.data() + dot + 1, line.data() + end, microseconds);
  return from_ns(seconds * 1'000'000'000 + microseconds * 1000);
}

}  // namespace

KillTrace::KillTrace()
    : name_("forestall-test-" + std::to_string(::getpid())), instances_(open_instances()) {
  ::unlinkat(instances_.get(), name_.c_str(), AT_REMOVEDIR);  // of a killed test with this pid
  if (::mkdirat(instances_.get(), name_.c_str(), 0700) != 0) fail("make an instance");
  instance_ = UniqueFd(::openat(instances_.get(), name_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!instance_) fail("open the instance");
  set("trace_clock", "mono");
  set("buffer_size_kb", "64");
  set("events/signal/signal_generate/filter", "sig==9");
  set("events/signal/signal_generate/enable", "1");
}

KillTrace::~KillTrace() {
  instance_.reset();
  ::unlinkat(instances_.get(), name_.c_str(), AT_REMOVEDIR);
}

void KillTrace::set(const char* file, const std::string& text) const {
  const UniqueFd opened(::openat(instance_.get(), file, O_WRONLY | O_CLOEXEC));
  if (!opened) fail(file);
  if (::write(opened.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    fail(file);
  }
}

std::optional<MonotonicTime> KillTrace::killed_at(pid_t pid) const {
  const UniqueFd opened(::openat(instance_.get(), "trace", O_RDONLY | O_CLOEXEC));
  if (!opened) fail("trace");
  const std::string text = read_all(opened.get());
  const std::string wanted = " pid=" + std::to_string(pid) + " ";
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (line.find(wanted) != std::string::npos) return time_of(line);
    begin = end + 1;
  }
  return std::nullopt;
}

void KillTrace::clear() const {
  const UniqueFd truncated(::openat(instance_.get(), "trace", O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (!truncated) fail("clear");
}

}  // namespace forestall::test
