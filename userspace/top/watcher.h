// SPDX-License-Identifier: Apache-2.0
// Looks again and again on a thread of its own, so that keys are answered while a busy node, or a
// busy agent, takes its time.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "forestall/v1/top.pb.h"
#include "top/eyes.h"

namespace forestall::top {

// What is wanted of the next pictures.
struct Wanted {
  std::string ranking = {};
  Duration interval = std::chrono::seconds(1);
  bool paused = false;
  friend bool operator==(const Wanted&, const Wanted&) = default;
};

class Watcher {
 public:
  // Begins to look at once. The function makes the eyes for a descriptor that calls a look off; it
  // is called here. Errors: eventfd().
  static Result<std::unique_ptr<Watcher>> start(
      const std::function<std::unique_ptr<Eyes>(int cancel_fd)>& make, Wanted wanted);
  // Calls off the look under way, and waits for its end.
  ~Watcher();

  // Readable when there is a picture to take.
  [[nodiscard]] int fd() const { return ready_.get(); }
  // The newest picture, or why there is none; nothing: none is new.
  [[nodiscard]] std::optional<Result<v1::TopReport>> take();
  // A change is looked at at once, unless it is a pause.
  void want(const Wanted& wanted);

 private:
  Watcher(UniqueFd ready, UniqueFd changed, UniqueFd stop, Wanted wanted);
  void run();
  void wait(MonotonicTime began);
  [[nodiscard]] Wanted wanted() const;
  // Polls readable; reads nothing.
  [[nodiscard]] bool stopped() const;

  const UniqueFd ready_;
  const UniqueFd changed_;
  const UniqueFd stop_;
  mutable std::mutex mutex_;
  Wanted wanted_;
  std::optional<Result<v1::TopReport>> newest_;
  std::unique_ptr<Eyes> eyes_;  // the thread's
  std::thread thread_;
};

}  // namespace forestall::top
