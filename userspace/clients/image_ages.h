// SPDX-License-Identifier: Apache-2.0
// Since when each image is stored, which CRI does not report.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"

namespace forestall::clients {

// Images of the first listing are old. Later, an image is as old as its first listing, as in
// kubelet (pkg/kubelet/images/image_gc_manager.go detectImages). Thread rule: any thread.
class ImageAges {
 public:
  // A younger image is kept, because the container that it was pulled for may not exist yet
  // (kubelet's imageMinimumGCAge).
  static constexpr Duration kMinimum = std::chrono::minutes(2);

  // `ids`: all images of the runtime.
  void note(const std::vector<std::string>& ids, MonotonicTime now);
  // Whether `id` may be removed. An image that was never noted may not.
  [[nodiscard]] bool is_old(const std::string& id, MonotonicTime now) const;

 private:
  mutable std::mutex mutex_;  // guards the map
  // Nothing: there was no listing yet.
  std::optional<std::unordered_map<std::string, MonotonicTime>> first_seen_;
};

}  // namespace forestall::clients
