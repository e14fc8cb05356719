// SPDX-License-Identifier: Apache-2.0
// Server-sent events (HTML Living Standard, 9.2) for browsers that follow a running agent.
//
// A separate thread of ordinary priority starts with the first client. While there are clients, it
// requests a frame once a second, or less often if frames take long. Without clients it sleeps. All
// clients get the same frames; a new client first gets the whole picture. A client that does not
// read is disconnected and counted, so that it cannot use the agent's memory.
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

// Source of the frames. Called by the thread only, in the order begin, frame…, end, repeatedly.
class LiveFrames {
 public:
  virtual ~LiveFrames() = default;
  // The first client connected.
  virtual void begin() = 0;
  struct PageUpdate {
    std::string next;   // for clients that have the last frame: the changes since then
    std::string whole;  // for a new client; empty unless wanted
  };
  [[nodiscard]] virtual PageUpdate frame(bool with_whole) = 0;
  // The last client disconnected.
  virtual void end() = 0;
};

class LiveStreams {
 public:
  static constexpr std::size_t kFollowersMax = 8;
  // Limit of unsent bytes per client (a single frame may be larger), and of the time for which a
  // client may read nothing.
  static constexpr std::size_t kWaitingMax = std::size_t{2} << 20;
  static constexpr Duration kPatience = std::chrono::seconds(10);
  static constexpr Duration kInterval = std::chrono::seconds(1);

  // `frames` outlives this. `dropped` counts disconnected slow clients, and outlives this.
  [[nodiscard]] static Result<std::unique_ptr<LiveStreams>> create(
      LiveFrames& frames, std::atomic<std::uint64_t>& dropped, Duration interval = kInterval);
  ~LiveStreams();
  LiveStreams(const LiveStreams&) = delete;
  LiveStreams& operator=(const LiveStreams&) = delete;

  // Any thread. Whether add() would refuse another client.
  [[nodiscard]] bool full() const { return followers_.load() >= kFollowersMax; }
  // One thread. Takes a connected, non-blocking socket whose head was sent. Closes it at once if
  // there are kFollowersMax clients, or if no thread can be started.
  void add(UniqueFd client);

 private:
  struct Follower {
    UniqueFd fd;
    std::string waiting;
    std::size_t sent = 0;
    bool is_new = true;
    MonotonicTime read_at;  // last read, or last time without unsent bytes
  };

  LiveStreams(LiveFrames& frames, std::atomic<std::uint64_t>& dropped, Duration interval,
              UniqueFd wake)
      : frames_(frames), dropped_(dropped), interval_(interval), wake_(std::move(wake)) {}
  // False: no thread could be started.
  [[nodiscard]] bool start();
  void serve();
  // False: the thread ends.
  [[nodiscard]] bool wait(MonotonicTime now);
  void take_new(MonotonicTime now);
  void report(MonotonicTime now);
  void queue(Follower& follower, const std::string& frame, MonotonicTime now);
  // False: the client is gone.
  [[nodiscard]] static bool send_on(Follower& follower, MonotonicTime now);
  void drop_lost(MonotonicTime now);

  LiveFrames& frames_;
  std::atomic<std::uint64_t>& dropped_;
  const Duration interval_;
  const UniqueFd wake_;
  std::atomic<std::size_t> followers_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // protects new_
  std::vector<UniqueFd> new_;
  // The thread's.
  std::vector<Follower> follow_;
  std::optional<MonotonicTime> due_;  // of the next frame; nothing: no clients
  std::thread thread_;                // started by the first add()
};

}  // namespace forestall::exports
