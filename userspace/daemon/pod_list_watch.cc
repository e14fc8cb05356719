// SPDX-License-Identifier: Apache-2.0
#include "daemon/pod_list_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/start_thread.h"
#include "intake/config_file.h"
#include "model/duration.h"

namespace forestall::daemon {
namespace {

using exports::LogLevel;
using exports::LogLine;
using std::chrono::seconds;

// For what inotify does not report: a directory that did not exist, a network filesystem.
constexpr Duration kCheckInterval = seconds(30);
constexpr std::uint32_t kEvents = IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE |
                                  IN_DELETE_SELF | IN_MOVE_SELF | IN_ATTRIB;

bool same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool same_contents(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         same_time(a.st_mtim, b.st_mtim);
}

bool same_file(const struct stat& a, const struct stat& b) {
  return same_contents(a, b) && same_time(a.st_ctim, b.st_ctim);
}

bool same_pods(const KnownPods& a, const KnownPods& b) {
  return std::ranges::equal(a, b,
                            [](const auto& left, const auto& right) { return *left == *right; });
}

// By the wall clock, which may have been set since the file was written.
MonotonicTime time_of_write(const struct stat& status) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const auto age = std::max<std::int64_t>(now.tv_sec - status.st_mtim.tv_sec, 0);
  return SystemClock().now() - seconds(age);
}

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void wake(const UniqueFd& event) {
  // Fails only if the counter is full: then it is readable already.
  (void)eventfd_write(event.get(), 1);
}

void drain(const UniqueFd& fd) {
  char buffer[4096];
  while (::read(fd.get(), buffer, sizeof buffer) > 0) {
  }
}

}  // namespace

Result<std::unique_ptr<PodListWatch>> PodListWatch::start(exports::Log& log) {
  UniqueFd events(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!events) return errno_error("inotify_init1", "podList");
  UniqueFd reported(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd ready(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!reported || !ready) return errno_error("eventfd", "podList");
  std::unique_ptr<PodListWatch> watch(
      new PodListWatch(log, std::move(events), std::move(reported), std::move(ready)));
  watch->thread_ = TRY(start_thread("pod-list", [raw = watch.get()] { raw->run(); }));
  return watch;
}

PodListWatch::~PodListWatch() {
  stopping_ = true;
  wake(reported_);
  if (thread_.joinable()) thread_.join();
}

void PodListWatch::follow(const std::string& path, Duration max_age, KnownPods in_force) {
  {
    const std::lock_guard lock(mutex_);
    if (state_.path != path) state_ = {};
    state_.path = path;
    max_age_ = max_age;
    state_.pods = in_force.size();
    std::swap(in_force_, in_force);
    waiting_.reset();
  }
  wake(reported_);
}

std::optional<KnownPods> PodListWatch::take() {
  drain(ready_);
  const std::lock_guard lock(mutex_);
  return std::exchange(waiting_, std::nullopt);
}

PodListState PodListWatch::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void PodListWatch::run() {
  ::prctl(PR_SET_NAME, "pod-list");
  while (!stopping_) {
    wait();
    if (!stopping_) check();
  }
}

void PodListWatch::wait() {
  pollfd both[] = {{events_.get(), POLLIN, 0}, {reported_.get(), POLLIN, 0}};
  const auto longest = std::chrono::duration_cast<std::chrono::milliseconds>(kCheckInterval);
  ::poll(both, 2, watched_.empty() ? -1 : static_cast<int>(longest.count()));
  drain(events_);
  drain(reported_);
}

void PodListWatch::check() {
  const std::string path = state().path;
  watch_directory(path);
  if (path.empty()) return;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return note_problem(path, errno_error("stat", path).text());
  }
  if (!read_ || !same_file(*read_, status)) read(path, status);
  note_age();
}

// The directory, because a list is usually replaced by a rename.
void PodListWatch::watch_directory(const std::string& path) {
  if (watched_ != path) {
    if (directory_ >= 0) ::inotify_rm_watch(events_.get(), directory_);
    directory_ = -1;
    read_.reset();
    watched_ = path;
  }
  // Added again each time: the directory may be another one by now, and adding is idempotent.
  if (!path.empty()) {
    directory_ = ::inotify_add_watch(events_.get(), directory_of(path).c_str(), kEvents);
  }
}

void PodListWatch::read(const std::string& path, const struct stat& status) {
  // From then on the age counts by time that passed, whatever happens to the clock.
  if (!read_ || !same_contents(*read_, status)) written_ = time_of_write(status);
  read_ = status;
  auto pods = intake::read_pod_file(path, intake::FileTrust::required);
  if (!pods) return note_problem(path, pods.error().text());
  offer(path, std::move(*pods));
}

void PodListWatch::offer(const std::string& path, KnownPods pods) {
  const std::size_t count = pods.size();
  KnownPods old;
  {
    const std::lock_guard lock(mutex_);
    if (state_.path != path) return;  // follow() was called meanwhile, and wakes the thread
    state_.problem.clear();
    state_.pods = count;
    old = in_force_;
  }
  if (same_pods(old, pods)) return;
  {
    const std::lock_guard lock(mutex_);
    if (state_.path != path) return;
    in_force_ = pods;
    waiting_ = std::move(pods);
  }
  wake(ready_);
  log_.write(LogLevel::info, LogLine("pod-list").field("path", path).field("pods", count));
}

void PodListWatch::note_age() {
  const Duration age = SystemClock().now() - written_;
  bool stale = false;
  bool was_stale = false;
  Duration max_age{};
  {
    const std::lock_guard lock(mutex_);
    max_age = max_age_;
    stale = age > max_age;
    state_.written = written_;
    was_stale = std::exchange(state_.stale, stale);
  }
  if (stale == was_stale) return;
  LogLine line("pod-list");
  line.field("path", watched_).field("age", to_string(age)).field("stale", stale);
  if (stale) {
    line.field("problem", "the podList was not written for " + to_string(max_age) +
                              "; facts of pods that are not on it are inferred")
        .field("remedy", "write it again regularly, whether it changed or not");
  }
  log_.write(stale ? LogLevel::warning : LogLevel::info, line);
}

// Once while it lasts.
void PodListWatch::note_problem(const std::string& path, const std::string& problem) {
  {
    const std::lock_guard lock(mutex_);
    if (state_.path != path || std::exchange(state_.problem, problem) == problem) return;
  }
  log_.write(LogLevel::error, LogLine("pod-list-refused")
                                  .field("path", path)
                                  .field("error", problem)
                                  .field("in_force", "the previous list"));
}

}  // namespace forestall::daemon
