// SPDX-License-Identifier: Apache-2.0
#include "top/watcher.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/blocked_signals.h"

namespace forestall::top {
namespace {

// The pause after a sample, as a multiple of its length: samples take at most a fifth of the time.
// An agent with ten thousand processes to score is not queried every second.
constexpr int kRestAfterSample = 4;
// A burst of agent events gives one sample.
constexpr Duration kNewsRest = std::chrono::milliseconds(100);

}  // namespace

Result<std::unique_ptr<Watcher>> Watcher::start(
    const std::function<std::unique_ptr<PictureSources>(int cancel_fd)>& make,
    SampleRequest wanted) {
  UniqueFd ready(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd changed(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ready || !changed || !stop) return errno_error("eventfd", "for samples");
  std::unique_ptr<Watcher> watcher(
      new Watcher(std::move(ready), std::move(changed), std::move(stop), std::move(wanted)));
  watcher->sources_ = make(watcher->stop_.get());
  const base::BlockedSignals blocked;
  watcher->thread_ = std::thread([raw = watcher.get()] { raw->run(); });
  ::pthread_setname_np(watcher->thread_.native_handle(), "top-sampler");
  return watcher;
}

Watcher::Watcher(UniqueFd ready, UniqueFd changed, UniqueFd stop, SampleRequest wanted)
    : ready_(std::move(ready)),
      changed_(std::move(changed)),
      stop_(std::move(stop)),
      wanted_(std::move(wanted)) {}

Watcher::~Watcher() {
  ::eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

std::optional<Result<internal::TopReport>> Watcher::take() {
  eventfd_t count = 0;
  (void)::eventfd_read(ready_.get(), &count);
  const std::lock_guard lock(mutex_);
  return std::exchange(newest_, std::nullopt);
}

void Watcher::request_sample(const SampleRequest& wanted) {
  {
    const std::lock_guard lock(mutex_);
    if (wanted_ == wanted) return;
    wanted_ = wanted;
  }
  ::eventfd_write(changed_.get(), 1);
}

SampleRequest Watcher::wanted() const {
  const std::lock_guard lock(mutex_);
  return wanted_;
}

bool Watcher::stopped() const {
  pollfd fd{stop_.get(), POLLIN, 0};
  return ::poll(&fd, 1, 0) > 0;
}

void Watcher::run() {
  // Crash signals must reach their handler on this thread as well: it restores the terminal.
  sigset_t crashes;
  ::sigemptyset(&crashes);
  for (const int each : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) ::sigaddset(&crashes, each);
  ::pthread_sigmask(SIG_UNBLOCK, &crashes, nullptr);
  while (!stopped()) {
    const MonotonicTime began = SystemClock().now();
    const SampleRequest now = wanted();
    if (!now.paused) {
      auto report = sources_->read(now.ranking, now.opened);
      {
        const std::lock_guard lock(mutex_);
        newest_ = std::move(report);
      }
      ::eventfd_write(ready_.get(), 1);
    }
    wait(began);
  }
}

// Waits until the next sample is due: after the interval, on a changed request, or on an action of
// the agent.
void Watcher::wait(MonotonicTime began) {
  const MonotonicTime ended = SystemClock().now();
  const MonotonicTime rested = ended + kRestAfterSample * (ended - began);
  bool news = false;
  while (true) {
    const SampleRequest now = wanted();
    const MonotonicTime due =
        news ? std::max(rested, ended + kNewsRest) : std::max(rested, began + now.interval);
    const Duration left = std::max(due - SystemClock().now(), Duration::zero());
    if (left == Duration::zero() && !now.paused) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec patience{seconds.count(), (left - seconds).count()};
    std::array<pollfd, 3> fds{{{stop_.get(), POLLIN, 0},
                               {changed_.get(), POLLIN, 0},
                               {sources_->news_fd(), sources_->news_events(), 0}}};
    if (::ppoll(fds.data(), fds.size(), now.paused ? nullptr : &patience, nullptr) < 0) continue;
    if (fds[0].revents != 0) return;
    if (fds[2].revents != 0) news = sources_->take_news() || news;
    if (fds[1].revents == 0) continue;
    eventfd_t count = 0;
    (void)::eventfd_read(changed_.get(), &count);
    const SampleRequest then = wanted();
    // A changed order, interval or end of a pause is sampled at once, so that the screen shows the
    // effect of the key.
    if (!then.paused) return;
  }
}

}  // namespace forestall::top
