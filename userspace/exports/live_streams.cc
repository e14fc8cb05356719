// SPDX-License-Identifier: Apache-2.0
#include "exports/live_streams.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/start_thread.h"

namespace forestall::exports {

Result<std::unique_ptr<LiveStreams>> LiveStreams::create(LiveFrames& frames,
                                                         std::atomic<std::uint64_t>& dropped,
                                                         Duration interval) {
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return errno_error("eventfd", "for live streams");
  return std::unique_ptr<LiveStreams>(new LiveStreams(frames, dropped, interval, std::move(wake)));
}

LiveStreams::~LiveStreams() {
  stop_ = true;
  eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

bool LiveStreams::start() {
  if (thread_.joinable()) return true;
  // The HTTP server's thread calls this with all signals blocked, so the new thread has them
  // blocked too.
  auto made = start_thread("forestall-live", [this] { serve(); });
  if (!made) return false;
  thread_ = std::move(made).value();
  pthread_setname_np(thread_.native_handle(), "forestall-live");
  return true;
}

void LiveStreams::add(UniqueFd client) {
  if (full() || !start()) return;
  ++followers_;
  {
    const std::lock_guard lock(mutex_);
    new_.push_back(std::move(client));
  }
  eventfd_write(wake_.get(), 1);
}

void LiveStreams::serve() {
  while (wait(SystemClock().now())) {
    const MonotonicTime now = SystemClock().now();
    take_new(now);
    if (due_ && *due_ <= now) report(now);
    drop_lost(now);
    if (!follow_.empty() || !due_) continue;
    due_.reset();
    frames_.end();
  }
  if (due_) frames_.end();
}

bool LiveStreams::wait(MonotonicTime now) {
  std::vector<pollfd> polled{{wake_.get(), POLLIN, 0}};
  for (const Follower& each : follow_) {
    const bool waits = each.sent < each.waiting.size();
    polled.push_back({each.fd.get(), static_cast<short>(POLLIN | (waits ? POLLOUT : 0)), 0});
  }
  int patience = -1;
  if (due_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due_ - now).count();
    patience = static_cast<int>(std::max<std::int64_t>(left, 0));
  }
  if (poll(polled.data(), polled.size(), patience) < 0) return errno == EINTR;
  if (polled[0].revents != 0) {
    eventfd_t value = 0;
    eventfd_read(wake_.get(), &value);
  }
  for (std::size_t i = 0; i < follow_.size(); ++i) {
    if (polled[i + 1].revents != 0 && !send_on(follow_[i], now)) follow_[i].fd.reset();
  }
  return !stop_;
}

void LiveStreams::take_new(MonotonicTime now) {
  const std::lock_guard lock(mutex_);
  for (UniqueFd& client : new_) {
    Follower& added = follow_.emplace_back();
    added.fd = std::move(client);
    added.read_at = now;
  }
  if (new_.empty()) return;
  new_.clear();
  if (!due_) frames_.begin();
  due_ = now;  // the first frame is due at once
}

void LiveStreams::report(MonotonicTime now) {
  const bool any_new = std::ranges::any_of(follow_, &Follower::is_new);
  const LiveFrames::PageUpdate frame = frames_.frame(any_new);
  for (Follower& each : follow_) {
    queue(each, each.is_new ? frame.whole : frame.next, now);
    each.is_new = false;
  }
  // If a frame takes long because the node is short of resources, the pause is as long as the frame
  // took.
  const MonotonicTime reported = SystemClock().now();
  due_ = std::max(now + interval_, reported + (reported - now));
}

void LiveStreams::queue(Follower& follower, const std::string& frame, MonotonicTime now) {
  if (!follower.fd) return;
  follower.waiting.erase(0, std::exchange(follower.sent, 0));
  if (follower.waiting.empty()) follower.read_at = now;
  // A picture larger than the limit could otherwise never be sent.
  if (!follower.waiting.empty() && follower.waiting.size() + frame.size() > kWaitingMax) {
    follower.fd.reset();
    ++dropped_;
    return;
  }
  follower.waiting += frame;
  if (!send_on(follower, now)) follower.fd.reset();
}

bool LiveStreams::send_on(Follower& follower, MonotonicTime now) {
  // Ignores input; only a closed connection matters.
  std::array<char, 512> bytes;
  const ssize_t received = recv(follower.fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR)) return false;
  while (follower.sent < follower.waiting.size()) {
    const ssize_t n = send(follower.fd.get(), follower.waiting.data() + follower.sent,
                           follower.waiting.size() - follower.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    follower.sent += static_cast<std::size_t>(n);
    follower.read_at = now;
  }
  return true;
}

void LiveStreams::drop_lost(MonotonicTime now) {
  for (Follower& each : follow_) {
    if (each.fd && each.sent < each.waiting.size() && now - each.read_at > kPatience) {
      each.fd.reset();
      ++dropped_;
    }
  }
  followers_ -= static_cast<std::size_t>(
      std::erase_if(follow_, [](const Follower& each) { return !each.fd; }));
}

}  // namespace forestall::exports
