// SPDX-License-Identifier: Apache-2.0
// Samples the node on its own thread, so that keys are handled while the node or the agent is slow.
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
#include "forestall/internal/top.pb.h"
#include "top/picture_sources.h"

namespace forestall::top {

// What the next samples must contain.
struct SampleRequest {
  std::string ranking = {};
  Duration interval = std::chrono::seconds(1);
  bool paused = false;
  std::string opened = {};  // path of the workload whose processes are needed
  friend bool operator==(const SampleRequest&, const SampleRequest&) = default;
};

class Watcher {
 public:
  // Starts sampling at once. `make` creates the sources for a descriptor that aborts a sample; it
  // is called here. Errors: eventfd().
  static Result<std::unique_ptr<Watcher>> start(
      const std::function<std::unique_ptr<PictureSources>(int cancel_fd)>& make,
      SampleRequest wanted);
  // Aborts the sample in progress and waits for its end.
  ~Watcher();

  // Readable when there is a new sample.
  [[nodiscard]] int fd() const { return ready_.get(); }
  // The newest sample, or why there is none; nothing: no new one.
  [[nodiscard]] std::optional<Result<internal::TopReport>> take();
  // A change is sampled at once, unless it is a pause.
  void request_sample(const SampleRequest& wanted);

 private:
  Watcher(UniqueFd ready, UniqueFd changed, UniqueFd stop, SampleRequest wanted);
  void run();
  void wait(MonotonicTime began);
  [[nodiscard]] SampleRequest wanted() const;
  // Polls for readability without reading.
  [[nodiscard]] bool stopped() const;

  const UniqueFd ready_;
  const UniqueFd changed_;
  const UniqueFd stop_;
  mutable std::mutex mutex_;
  SampleRequest wanted_;
  std::optional<Result<internal::TopReport>> newest_;
  std::unique_ptr<PictureSources> sources_;  // used by the thread
  std::thread thread_;
};

}  // namespace forestall::top
