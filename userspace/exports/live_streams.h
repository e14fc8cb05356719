// SPDX-License-Identifier: Apache-2.0
// Server-sent events (HTML Living Standard, 9.2) to those who follow a running agent in a browser.
//
// A thread of its own, of ordinary priority and made with the first who follows, asks for a frame
// once a second for as long as somebody does, less often where a frame takes long, and then sleeps
// until the next one comes. All get the same frames; one who is new gets all of the picture first.
// Whoever does not read is dropped, and counted: nobody's memory is theirs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::exports {

// What is told. Called by the thread alone, in the order begin, frame…, end, again and again.
class LiveFrames {
 public:
  virtual ~LiveFrames() = default;
  // Somebody follows.
  virtual void begin() = 0;
  struct Frame {
    std::string next;   // for those who follow: what came since the last frame
    std::string whole;  // for one who is new; empty unless wanted
  };
  [[nodiscard]] virtual Frame frame(bool want_whole) = 0;
  // Nobody follows any more.
  virtual void end() = 0;
};

class LiveStreams {
 public:
  static constexpr std::size_t kFollowersMax = 8;
  // What may wait for one that reads slowly (one frame may, whatever its size), and for how long
  // without it reading anything.
  static constexpr std::size_t kWaitingMax = std::size_t{2} << 20;
  static constexpr Duration kPatience = std::chrono::seconds(10);
  static constexpr Duration kInterval = std::chrono::seconds(1);

  // `frames` outlives this. `dropped` counts who was dropped, and outlives this.
  [[nodiscard]] static Result<std::unique_ptr<LiveStreams>> create(
      LiveFrames& frames, std::atomic<std::uint64_t>& dropped, Duration interval = kInterval);
  ~LiveStreams();
  LiveStreams(const LiveStreams&) = delete;
  LiveStreams& operator=(const LiveStreams&) = delete;

  // Any thread. Whether one more would be refused.
  [[nodiscard]] bool full() const { return followers_.load() >= kFollowersMax; }
  // One thread. A connected socket that does not block, whose head was sent. Closed at once where
  // there are kFollowersMax, or no thread is to be had.
  void add(UniqueFd client);

 private:
  struct Follower {
    UniqueFd fd;
    std::string waiting;
    std::size_t sent = 0;
    bool is_new = true;
    MonotonicTime read_at;  // when it last took something, or had nothing to take
  };

  LiveStreams(LiveFrames& frames, std::atomic<std::uint64_t>& dropped, Duration interval,
              UniqueFd wake)
      : frames_(frames), dropped_(dropped), interval_(interval), wake_(std::move(wake)) {}
  // False: there is no thread.
  [[nodiscard]] bool start();
  void serve();
  // False: it is to end.
  [[nodiscard]] bool wait(MonotonicTime now);
  void take_new(MonotonicTime now);
  void tell(MonotonicTime now);
  void queue(Follower& follower, const std::string& frame, MonotonicTime now);
  // False: it is gone.
  [[nodiscard]] static bool send_on(Follower& follower, MonotonicTime now);
  void drop_lost(MonotonicTime now);

  LiveFrames& frames_;
  std::atomic<std::uint64_t>& dropped_;
  const Duration interval_;
  const UniqueFd wake_;
  std::atomic<std::size_t> followers_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // of new_
  std::vector<UniqueFd> new_;
  // The thread's.
  std::vector<Follower> follow_;
  std::optional<MonotonicTime> due_;  // of the next frame; nothing: nobody follows
  std::thread thread_;                // made by the first add()
};

}  // namespace forestall::exports
